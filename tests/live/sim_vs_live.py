#!/usr/bin/env python3
"""sim_vs_live.py KVLANE SCENARIO: `compare --sim-vs-live` between shaped namespaces (root; skipped, 77, without). Bytes that no
timing changes agree; times are looked at for sense only: a busy machine is no place for a bound."""
import json
import os
import shutil
import subprocess
import sys


def main():
    kvlane, scenario = sys.argv[1:3]
    words = [kvlane, "compare", "--sim-vs-live", scenario, "--compute", "modeled", "--runs", "1", "--format", "json"]
    bad = subprocess.run([*words, "--shape", "10"], capture_output=True, text=True)
    assert bad.returncode == 2 and "--shape" in bad.stderr, bad.stderr
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
        refused = subprocess.run([*words, "--shape", "2 Gbps"], capture_output=True, text=True)
        assert refused.returncode == 2 and "expected" in refused.stderr, refused.stderr
        print("needs root, ip and tc: skipped")
        sys.exit(77)
    run = subprocess.run([*words, "--shape", "2 Gbps", "--verify"], capture_output=True, text=True, timeout=240)
    if "Operation not permitted" in run.stderr or "is unknown" in run.stderr:
        print("no namespaces or no tbf here: skipped:", run.stderr)
        sys.exit(77)
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert result["schema"] == "kvlane.sim_vs_live/1"
    rows = {(r["strategy"], r["metric"]): r for r in result["rows"]}
    for strategy in ("full", "sequential", "hack", "smartgen"):
        for metric in ("ttst_s", "second_token_s", "tbt_s", "jct_s"):
            row = rows[strategy, metric]
            assert row["sim"] > 0 and row["live"] > 0, row
            assert abs(row["error"] - (row["sim"] - row["live"]) / row["live"]) < 1e-9, row
        proactive = rows[strategy, "bytes.proactive"]
        assert proactive["sim"] == proactive["live"] > 0, proactive
    assert rows["full", "bytes.total"]["error"] == 0
    # Nothing slower than the shaped link's bytes: 2 Gbit/s carry 250 MB/s.
    full = rows["full", "second_token_s"]["live"]
    assert full > rows["full", "bytes.proactive"]["live"] / 250e6 * 0.9, full
    left = [name for name in os.listdir("/run/netns") if name.startswith("kvlane-")] if os.path.isdir("/run/netns") else []
    assert not left, left
    print("sim and live:", {m: round(rows["smartgen", m]["error"], 3) for m in ("ttst_s", "tbt_s")})


main()
