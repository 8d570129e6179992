#!/usr/bin/env python3
"""kill_roles.py KVLANE SCENARIO [ROUNDS]: live runs whose roles are killed, stopped or cut off at random points. The other
role ends with one clear line and status 1 within its deadline, and no process of the run is left behind."""
import os
import random
import signal
import subprocess
import sys
import time

LEASE = 1.0  # seconds
SLACK = 12.0  # for a busy machine


def children_of(pid):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as stat:
                    if int(stat.read().rsplit(")", 1)[1].split()[1]) == pid:
                        found.append(int(entry))
            except (OSError, IndexError):
                pass
    return found


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def one_round(kvlane, scenario, transport, what, seed):
    rng = random.Random(seed)
    words = [kvlane, "run", scenario, "--live", "--compute", "modeled", "--transport", transport, "--verify", "--lease", f"{LEASE} s",
             "--timeout", "1 s", "--format", "json"]
    run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    began = time.monotonic()
    prefill = None
    while prefill is None and run.poll() is None:
        found = children_of(run.pid)
        prefill = found[0] if found else None
        time.sleep(0.005)
    time.sleep(rng.uniform(0.0, 0.6))
    victim = {"kill prefill": prefill, "stop prefill": prefill, "kill decode": run.pid, "stop decode": run.pid}[what]
    over = run.poll() is not None
    hit = time.monotonic()
    if not over:
        try:
            os.kill(victim, signal.SIGKILL if what.startswith("kill") else signal.SIGSTOP)
        except ProcessLookupError:
            over = True
    if what == "stop decode" and not over:
        # The prefill role finds out by itself; then the decode role goes on and finds its peer gone.
        deadline = time.monotonic() + LEASE + SLACK
        while alive(prefill) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not alive(prefill), "the prefill role outlived its lease"
        os.kill(run.pid, signal.SIGCONT)
    try:
        out, err = run.communicate(timeout=LEASE + SLACK)
    except subprocess.TimeoutExpired:
        run.kill()
        raise AssertionError(f"{what}: the run hangs")
    took = time.monotonic() - hit
    if over or run.returncode == 0:
        return "ended before"
    if what == "kill decode":
        assert run.returncode == -signal.SIGKILL
    else:
        assert run.returncode == 1, (run.returncode, err)
        assert out == "", out[:200]
        lines = [line for line in err.splitlines() if line.startswith("kvlane: ")]
        assert len(lines) == 1 and len(lines[0]) > 30, err
    deadline = time.monotonic() + SLACK
    while prefill and alive(prefill) and what != "stop prefill" and time.monotonic() < deadline:
        time.sleep(0.02)
    if what == "stop prefill" and prefill and alive(prefill):
        # The parent has sent it SIGKILL, which ends a stopped process, too.
        time.sleep(0.5)
    assert not (prefill and alive(prefill)), f"{what}: process {prefill} is left behind"
    assert took < LEASE + SLACK, took
    return f"{took:.1f} s after {hit - began:.2f} s"


def main():
    kvlane, scenario = sys.argv[1:3]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    hits = 0
    for transport in ("tcp", "shm"):
        for what in ("kill prefill", "stop prefill", "kill decode", "stop decode"):
            for n in range(rounds):
                result = one_round(kvlane, scenario, transport, what, seed=f"{transport} {what} {n}")
                hits += result != "ended before"
                print(f"{transport}: {what}: {result}", flush=True)
    # Memory is anonymous and sockets are abstract: what is left would be a name in the kernel's table.
    with open("/proc/net/unix") as table:
        left = [line for line in table if "@kvlane-" in line]
    assert not left, left
    assert hits >= 4, f"only {hits} runs were hit before their end"


main()
