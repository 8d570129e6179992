#!/usr/bin/env python3
"""roles_by_hand.py KVLANE SCENARIO: the two roles as a user starts them, and what goes wrong between them: one clear line each,
status 1 or 2, nothing on stdout."""
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

KVLANE, SCENARIO = sys.argv[1:3]
TIMEOUT = 60


def start_prefill(*words, scenario=SCENARIO, listen="127.0.0.1:0", env=None):
    role = subprocess.Popen([KVLANE, "run", scenario, "--role", "prefill", "--listen", listen, "--compute", "modeled", *words],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    line = role.stderr.readline()
    return role, line.split()[1] if line.startswith("listening ") else line.rstrip("\n")


def decode(*words, scenario=SCENARIO, env=None):
    return subprocess.run([KVLANE, "run", scenario, "--role", "decode", "--compute", "modeled", "--format", "json", *words],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT, env=env)


def ended(role):
    out, err = role.communicate(timeout=TIMEOUT)
    return role.returncode, out, err


def error_of(text):
    lines = [line for line in text.splitlines() if line.startswith("kvlane: ")]
    assert len(lines) == 1, text
    return lines[0]


def good():
    role, address = start_prefill("--verify", "--transport", "tcp")
    run = decode("--peer", address, "--verify", "--transport", "tcp")
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert result["live"]["peers"][0]["transport"] == "tcp" and result["live"]["verified_bytes"] > 1e6
    assert 0 < result["live"]["peers"][0]["clock_error_s"] < 0.1
    names = [s["name"] for s in result["strategies"]]
    assert names == ["full", "sequential", "hack", "smartgen"], names
    status, out, err = ended(role)
    assert (status, out) == (0, ""), (status, out, err)


def refused(prefill_words, decode_words, expected, prefill_env=None, decode_env=None, decode_scenario=SCENARIO):
    role, address = start_prefill(*prefill_words, env=prefill_env)
    run = decode("--peer", address, *decode_words, env=decode_env, scenario=decode_scenario)
    assert run.returncode == 1 and run.stdout == "", (run.returncode, run.stdout[:100], run.stderr)
    for part in expected:
        assert part in error_of(run.stderr), (part, run.stderr)
    role.kill()
    ended(role)


def with_secret(secret):
    return dict(os.environ, KVLANE_SECRET=secret)


def main():
    good()
    # The other scenario: every difference with both values.
    role, address = start_prefill()
    run = decode("--peer", address, "--set", "serving.blocks=64", "--set", "workload.output_tokens=5")
    text = error_of(run.stderr)
    assert run.returncode == 1 and "blocks_per_layer: 64 here, 128 at the peer" in text, text
    assert "output_tokens: 5 here, 12 at the peer" in text, text
    assert "--set: serving.blocks=64, workload.output_tokens=5 here, none at the peer" in text, text
    status, out, err = ended(role)
    assert status == 1 and "was refused" in error_of(err), err
    refused([], ["--set", "model=smollm2-135m"], ["model: SmolLM2-135M here, Llama-3.1-8B at the peer"])
    # Secrets.
    refused([], [], ["wrong secret"], with_secret("one secret"), with_secret("another secret"))
    refused([], [], ["wrong secret", "none at the other"], with_secret("one secret"))
    with tempfile.TemporaryDirectory() as folder:
        short = os.path.join(folder, "short")
        with open(short, "w") as file:
            file.write("abc\n")
        run = decode("--peer", "127.0.0.1:1", "--secret-file", short)
        assert run.returncode == 2 and "a secret of 3 bytes" in run.stderr, run.stderr
        run = decode("--peer", "127.0.0.1:1", "--secret-file", os.path.join(folder, "none"))
        assert run.returncode == 2 and "cannot be read" in run.stderr, run.stderr
    # A refused stranger does not close the door: the right peer comes after it.
    role, address = start_prefill(env=with_secret("one secret"))
    assert decode("--peer", address).returncode == 1
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + bytes(64))
    with socket.create_connection((host, int(port))) as stranger:
        stranger.sendall(b"kvlaneL1" + bytes(24) + b"\xff" * 4096)
    socket.create_connection((host, int(port))).close()
    # One that says it opens a session, and then nothing, is waited for, and whoever came meanwhile waits behind it.
    silent = socket.create_connection((host, int(port)))
    silent.sendall(b"kvlaneL1" + bytes(24))
    time.sleep(0.2)
    run = decode("--peer", address, env=with_secret("one secret"))
    assert run.returncode == 0, run.stderr
    silent.close()
    status, _, err = ended(role)
    assert status == 0, err
    # Beyond loopback nobody listens without a secret.
    role, line = start_prefill(listen="0.0.0.0:0")
    assert ended(role)[0] == 2 and "no secret; expected --secret-file" in line, line
    # A port that is taken, a peer that is not there, words that make no sense.
    with socket.create_server(("127.0.0.1", 0)) as taken:
        role, line = start_prefill(listen="127.0.0.1:%d" % taken.getsockname()[1])
        assert ended(role)[0] == 1 and "Address already in use" in line, line
    run = decode("--peer", "127.0.0.1:1", "--connect-timeout", "200 ms")
    assert run.returncode == 1 and "Connection refused (tried for 0.2 s)" in run.stderr, run.stderr
    for words, found in ((["--peer", "127.0.0.1"], "no port"), (["--peer", "127.0.0.1:99999"], "port '99999'"),
                         (["--peer", "a:1", "--peer", "b:1"], "expected HOST:PORT"), ([], "without --peer"),
                         (["--peer", "127.0.0.1:1", "--peer", "127.0.0.1:2"], "2 prefill peers; expected 1"),
                         (["--peer", "127.0.0.1:1", "--timeout", "3"], "--timeout"),
                         (["--peer", "127.0.0.1:1", "--transport", "carrier-pigeon"], "carrier-pigeon"),
                         (["--peer", "127.0.0.1:1", "--uncertainty", "5"], "--uncertainty with --live")):
        run = decode(*words)
        assert run.returncode == 2 and run.stdout == "" and found in run.stderr, (words, run.stderr)
    # The peer is no kvlane.
    with socket.create_server(("127.0.0.1", 0)) as server:
        child = subprocess.Popen([KVLANE, "run", SCENARIO, "--role", "decode", "--compute", "modeled", "--peer",
                                  "127.0.0.1:%d" % server.getsockname()[1]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        connection, _ = server.accept()
        connection.sendall(b"220 mail.example.org ESMTP\r\n" * 4)
        status, out, err = ended(child)
        connection.close()
        assert status == 1 and out == "" and "does not speak kvlane's protocol" in error_of(err), err
    print("two roles by hand: as expected")


main()
