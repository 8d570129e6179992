#!/usr/bin/env python3
"""transport.py KVLANE [ROUNDS]: writes over TCP on this machine's loopback beside iperf3, ucx_perftest and Mooncake, interleaved. A line a size,
NAME OURS RIVAL RATIO in bytes a second (the rival is the best of the peers), and NAME.cpu with CPU seconds a GB of both ends
(ratio: rival / ours, above 1 is better). Ours counts what lies in place at the peer, after every byte of a probe was checked."""
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import time

SIZES = {"write/4096s": 4096, "write/65536": 65536, "write/1048576": 1048576}
SECONDS = 2


def cpu_of_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def ours(kvlane):
    words = [kvlane, "calibrate", "link", "--transport", "tcp", "--op", "write", "--sizes", "1 MiB", "--fragments", "256", "--depths", "16",
             "--queues", "none", "--seconds", f"{SECONDS} s", "--format", "json", "--verify"]
    run = subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    found = {}
    for row in json.loads(run.stdout)["rows"]:
        key = {("size", 1): "write/1048576", ("fragments", 256): "write/4096s", ("depth", 1): "write/65536"}.get((row["axis"], row["fragments"]))
        if key and row["op"] == "write":
            found[key] = (row["bw_GBps"] * 1e9, row["cpu_s_per_GB"])
    return found


def iperf(size):
    server = subprocess.Popen(["iperf3", "-s", "-1", "-p", "5999"], stdout=subprocess.DEVNULL)
    time.sleep(0.3)
    out = subprocess.run(["iperf3", "-c", "127.0.0.1", "-p", "5999", "-t", str(SECONDS), "-l", str(size), "-J"], stdout=subprocess.PIPE, text=True)
    server.wait(timeout=10)
    end = json.loads(out.stdout)["end"]
    load = end["cpu_utilization_percent"]
    rate = end["sum_received"]["bits_per_second"] / 8
    return rate, (load["host_total"] + load["remote_total"]) / 100 / (rate / 1e9)


def ucx(size):
    environment = dict(os.environ, UCX_TLS="tcp,self", UCX_NET_DEVICES="lo", UCX_WARN_UNUSED_ENV_VARS="n")
    before = cpu_of_children()
    count = max(2000, int(SECONDS * 0.6e9 / size))
    server = subprocess.Popen(["ucx_perftest", "-p", "13337"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    out = subprocess.run(["ucx_perftest", "127.0.0.1", "-p", "13337", "-t", "ucp_put_bw", "-s", str(size), "-n", str(count), "-w", "100", "-f", "-v"],
                         env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=120)
    server.wait(timeout=10)
    spent = cpu_of_children() - before
    rows = [line.split(",") for line in out.stdout.splitlines() if re.match(r"^\d+,", line)]
    rate = float(rows[-1][5]) * 2**20
    return rate, spent / ((count + 100) * size / 1e9)


# From PyPI (mooncake-transfer-engine-non-cuda), where it is on the PATH. It acknowledges after the bytes are in place, as we do.
def mooncake(size):
    environment = dict(os.environ, MC_FORCE_TCP="1", MC_TCP_ENABLE_CONNECTION_POOL="1")
    words = ["transfer_engine_bench", "--protocol=tcp", "--metadata_server=P2PHANDSHAKE", f"--buffer_size={2**29}"]
    target = subprocess.Popen(words + ["--mode=target", "--local_server_name=127.0.0.1:21000"], env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    try:
        port = next(m[1] for m in (re.search(r"listening on 127\.0\.0\.1:(\d+)", line) for line in target.stdout) if m)
        before, at_target = cpu_of_children(), cpu_of(target.pid)
        batch = {4096: 64, 65536: 16}.get(size, 8)
        out = subprocess.run(words + ["--mode=initiator", "--local_server_name=127.0.0.1:21001", f"--segment_id=127.0.0.1:{port}", "--operation=write",
                                      f"--block_size={size}", f"--batch_size={batch}", "--threads=1", f"--duration={SECONDS}", "--report_unit=GB",
                                      "--report_precision=4"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        spent = cpu_of_children() - before + cpu_of(target.pid) - at_target
    finally:
        target.kill()
        target.wait(timeout=10)
    rate = float(re.search(r"throughput ([\d.]+) GB/s", out.stdout)[1]) * 1e9
    return rate, spent / (rate * SECONDS / 1e9)


def cpu_of(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    if {"-h", "--help"} & set(sys.argv[1:]):
        print("usage: ./kvlane bench transport [ROUNDS]     (default: 3 interleaved rounds)\n\n" + __doc__)
        return
    kvlane = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    known = (("iperf3", "iperf3", iperf), ("ucx", "ucx_perftest", ucx), ("Mooncake", "transfer_engine_bench", mooncake))
    peers = {name: call for name, tool, call in known if shutil.which(tool)}
    for name, tool, _ in known:
        if name not in peers:
            print(f"transport.py: {name} is left out: there is no {tool}", file=sys.stderr)
    print("transport.py: load %.2f %.2f %.2f" % os.getloadavg(), file=sys.stderr)
    mine = {name: [] for name in SIZES}
    theirs = {(peer, name): [] for peer in peers for name in SIZES}
    for _ in range(rounds):
        for name, value in ours(kvlane).items():
            mine[name].append(value)
        for name, size in SIZES.items():
            for peer, call in peers.items():
                theirs[peer, name].append(call(size))
    for name in SIZES:
        rate, cpu = (statistics.median(v[i] for v in mine[name]) for i in (0, 1))
        best = {peer: [statistics.median(v[i] for v in theirs[peer, name]) for i in (0, 1)] for peer in peers}
        if not best:
            print(f"{name} {rate:.0f} - -\n{name}.cpu {cpu:.3f} - -")
            continue
        fastest = max(best.values(), key=lambda v: v[0])[0]
        print(f"{name} {rate:.0f} {fastest:.0f} {rate / fastest:.2f}")
        cheapest = min(best.values(), key=lambda v: v[1])[1]
        print(f"{name}.cpu {cpu:.3f} {cheapest:.3f} {cheapest / cpu:.2f}")
        print(f"transport.py: {name}: " + ", ".join(f"{p} {v[0] / 1e9:.2f} GB/s {v[1]:.2f} CPU s/GB" for p, v in best.items()), file=sys.stderr)


main()
