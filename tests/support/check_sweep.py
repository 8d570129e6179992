#!/usr/bin/env python3
"""A sweep gives the same bytes whatever -j, after SIGKILLs, and from shards; a folder with a result is
left alone without --force; bad studies leave nothing behind. Usage: check_sweep.py KVLANE SCENARIO"""

import csv
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

STUDY = """\
kind: study
name: test
scenario: {scenario}
strategies: [full, hack, smartgen]
grid:
  - key: workload.prompts.0.tokens
    values: [{tokens}]
  - key: instances.decode.nic.rate
    values: [{rates}]
crossovers:
  - {{of: smartgen, against: full, metric: second_token_s, over: instances.decode.nic.rate, tolerance: 5 %}}
  - {{of: hack, against: full, metric: jct_s, over: instances.decode.nic.rate, tolerance: 5 %}}
"""


def main():
    kvlane, scenario = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)

        def study(name, tokens="2000, 4000", rates="5 Gbps, 10 Gbps, 40 Gbps, 400 Gbps"):
            path = root / f"{name}.yaml"
            path.write_text(STUDY.format(scenario=scenario, tokens=tokens, rates=rates))
            return path

        def sweep(path, out, *words, status=0):
            done = subprocess.run([kvlane, "sweep", str(path), "--out", str(out), *words],
                                  capture_output=True, text=True, check=False)
            assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
            return done

        def files(out):
            return {name: (out / name).read_bytes() for name in ("runs.csv", "crossovers.csv")}

        good = study("good")
        sweep(good, root / "j1", "-j", "1")
        expected = files(root / "j1")
        rows = list(csv.DictReader(expected["runs.csv"].decode().splitlines()))
        assert len(rows) == 2 * 4 * 3, len(rows)
        order = [(r["workload.prompts.0.tokens"], r["instances.decode.nic.rate"], r["strategy"]) for r in rows]
        assert order == [(t, r, s) for t in ("2000", "4000")
                         for r in ("5 Gbps", "10 Gbps", "40 Gbps", "400 Gbps")
                         for s in ("full", "hack", "smartgen")], order
        crossings = list(csv.DictReader(expected["crossovers.csv"].decode().splitlines()))
        assert len(crossings) >= 4, crossings
        for row in crossings:
            if not row["low"]:
                continue
            low, high = float(row["low"].split()[0]), float(row["high"].split()[0])
            assert low < high <= low * 1.05 * 1.0001, row
            assert row["better_below"] != row["better_above"], row

        sweep(good, root / "j2", "-j", "2")
        assert files(root / "j2") == expected, "-j 2 gives other bytes"

        # Killed again and again until it comes through; every round must find more in the journal.
        out = root / "killed"
        kills = 0
        delay = 0.02
        while True:
            process = subprocess.Popen([kvlane, "sweep", str(good), "--out", str(out), "-j", "2"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            try:
                process.wait(timeout=delay)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                kills += 1
                delay *= 1.5
                assert not (out / "runs.csv").exists() or files(out) == expected
                journal = out / "journal.jsonl"
                if journal.exists() and kills % 2:  # a line that the kill cut off
                    with journal.open("ab") as file:
                        file.write(b"0123456789abcdef0123")
                continue
            assert process.returncode == 0, process.stderr.read()
            break
        assert kills > 0
        assert files(out) == expected, "a killed sweep gives other bytes"

        out = root / "shards"
        for shard in ("2/3", "1/3", "3/3"):
            sweep(good, out, "--shard", shard)
            assert not (out / "runs.csv").exists()
        before = (out / "journal-1-of-3.jsonl").read_bytes()
        sweep(good, out)
        assert files(out) == expected, "shards give other bytes"
        assert (out / "journal-1-of-3.jsonl").read_bytes() == before

        # Again: everything is in the journal. Another study in the same folder: refused, then forced.
        start = time.monotonic()
        sweep(good, root / "j1")
        assert files(root / "j1") == expected
        other = study("other", rates="5 Gbps, 10 Gbps")
        assert "--force" in sweep(other, root / "j1", status=2).stderr
        assert files(root / "j1") == expected
        sweep(other, root / "j1", "--force")
        assert files(root / "j1") != expected
        (root / "bare").mkdir()
        (root / "bare" / "runs.csv").write_text("mine")
        assert "--force" in sweep(good, root / "bare", status=2).stderr
        assert (root / "bare" / "runs.csv").read_text() == "mine"

        # Bad input: one line, nothing on stdout, no folder.
        for name, change in (("unit", {"rates": "5 Gbps, 10"}), ("tokens", {"tokens": "2000, many"})):
            done = sweep(study(name, **change), root / "never", status=2)
            assert done.stdout == "" and done.stderr.count("\n") == 1, (done.stdout, done.stderr)
            assert not (root / "never").exists()
        print(f"ok: {len(rows)} rows, {kills} kills, again in {time.monotonic() - start:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
