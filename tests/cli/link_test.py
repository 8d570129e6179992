"""kvlane calibrate link: one process and two, its rows, its files, its errors."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import unittest

from support import Case, ROOT

FEW = ["--sizes", "4 KiB", "--fragments", "none", "--depths", "none", "--queues", "none", "--background", "none",
       "--working-set", "4 MiB"]
SHORT = [*FEW, "--seconds", "5 ms"]
LONG = [*(word.replace("4 MiB", "16 MiB") for word in FEW), "--seconds", "60 s"]


class Link(Case):
    def start(self, *words, secret=None):
        """A kvlane that goes on; ended with the test."""
        environment = dict(os.environ)
        if secret is not None:
            environment["KVLANE_SECRET"] = secret
        process = subprocess.Popen([os.environ["KVLANE"], "calibrate", "link", *map(str, words)], cwd=ROOT, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=environment)

        def end():
            if process.poll() is None:
                process.kill()
            process.communicate()
        self.addCleanup(end)
        return process

    def listening(self, *words, secret=None):
        process = self.start("--listen", "127.0.0.1:0", *words, secret=secret)
        line = process.stderr.readline()
        self.assertRegex(line, r"^listening 127\.0\.0\.1:\d+\n$")
        return process, line.split()[1]

    def ended(self, process, status, says):
        _, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, status, error)
        self.assertEqual(error.count("\n"), 1 if says else 0, error)
        for text in says:
            self.assertIn(text, error)

    def test_both_ends_here(self):
        for transport in ("shm", "tcp"):
            samples, nic = self.folder / f"{transport}.samples.jsonl", self.folder / f"{transport}.yaml"
            done = self.kvlane("calibrate", "link", "--transport", transport, "--seconds", "10 ms", "--working-set",
                               "32 MiB", "--sizes", "64 B,512 B,4 KiB,8 KiB,16 KiB,32 KiB,64 KiB,1 MiB,4 MiB",
                               "--fragments", "1,1024", "--depths", "1,8", "--queues", "1,2", "--background",
                               "0 B,1 MiB", "--verify", "--format", "json", "-o", samples, "--nic", nic)
            result = json.loads(done.out)
            self.assertEqual(result["schema"], "kvlane.calibrate_link/1")
            where = result["environment"]
            self.assertEqual((where["transport"], where["mark"], where["working_set_bytes"], where["queues"]),
                             (transport, "loopback", 32 << 20, 2))
            self.assertGreater(where["connect_s"], 0)
            rows = result["rows"]
            self.assertEqual({row["axis"] for row in rows},
                             {"size", "fragments", "depth", "queues", "lanes", "background"})
            self.assertEqual({row["op"] for row in rows}, {"write", "read"})
            for row in rows:
                self.assertEqual((row["backend"], row["errors"], row["mark"]), (transport, 0, "loopback"))
                self.assertEqual(row["bytes"], row["iters"] * row["block_bytes"])
                self.assertEqual(row["run_bytes"] * row["fragments"], row["block_bytes"])
                self.assertGreaterEqual(row["verified_bytes"], row["block_bytes"])
                self.assertAlmostEqual(row["bw_GBps"], row["bytes"] / row["secs"] / 1e9, delta=0.01 * row["bw_GBps"] + 1e-5)
                latency = row["lat_us"]
                self.assertEqual(list(latency), ["min", "p50", "p90", "p99", "p99.9", "max", "mean", "stdev"])
                self.assertLessEqual(latency["min"], latency["p50"])
                self.assertLessEqual(latency["p99"], latency["max"])
            self.assertEqual([row["background_bytes"] for row in rows if row["axis"] == "background"], [0, 1 << 20])
            # The files are read by those for whom they are.
            self.kvlane("validate", nic)
            self.assertRegex(nic.read_text(), r"(?m)^rate: \{value: .*, source: measured, from: ")
            lines = [json.loads(line) for line in samples.read_text().splitlines()]
            self.assertEqual({line["kernel"] for line in lines}, {"nic_message", "nic_latency"})
            self.assertEqual({line["machine"] for line in lines}, {transport})
            self.assertEqual([line["shape"] for line in lines[:2]], [{"bytes": 64}, {"bytes": 64, "queue_pairs": 1}])
            self.assertEqual(len(lines), 2 * 9)
            self.refused("calibrate", "link", *SHORT, "--nic", nic, says=["there already", str(nic)])

    def test_table_and_csv(self):
        table = self.kvlane("calibrate", "link", *SHORT, "--op", "write", "--transport", "tcp").out
        self.assertRegex(table, r"^tcp over loopback by lo \(MTU \d+ B\), .* working set 4 MiB, connected in ")
        self.assertEqual(len(re.findall(r"(?m)^size +write +4Ki ", table)), 2, table)
        rows = list(csv.DictReader(io.StringIO(
            self.kvlane("calibrate", "link", *SHORT, "--op", "read", "--format", "csv").out)))
        self.assertEqual([row["in_flight"] for row in rows], ["1", "16"])
        self.assertGreater(float(rows[0]["lat_us_p50"]), 0)
        self.assertEqual(rows[0]["visible_from"], "own_clock")

    def test_two_processes(self):
        answering, address = self.listening(secret="a shared secret")
        measuring = self.start("--peer", address, *SHORT, secret="a shared secret")
        self.assertIn("4Ki", measuring.communicate(timeout=60)[0])
        self.assertEqual(measuring.returncode, 0)
        self.ended(answering, 0, [])

    def test_ends_that_do_not_agree(self):
        answering, address = self.listening(secret="a shared secret")
        self.ended(self.start("--peer", address, *SHORT, secret="another secret"), 1, ["refused: wrong secret"])
        # A stranger does not close the door for others.
        measuring = self.start("--peer", address, *SHORT, secret="a shared secret")
        measuring.communicate(timeout=60)
        self.assertEqual(measuring.returncode, 0)
        self.ended(answering, 0, ["was refused: wrong secret"])
        answering, address = self.listening("--checksum", "--working-set", "8 MiB")
        self.ended(self.start("--peer", address, *SHORT), 1,
                   ["--checksum: no here, yes at the peer", "--working-set (bytes): 4194304 here, 8388608 at the peer"])
        self.ended(answering, 1,
                   ["--checksum: yes here, no at the peer", "--working-set (bytes): 8388608 here, 4194304 at the peer"])

    def test_the_address(self):
        _, address = self.listening()
        self.ended(self.start("--listen", address), 1, [f"listening on {address}: Address already in use"])
        # A port that was free a moment ago.
        answering, address = self.listening()
        answering.kill()
        answering.wait()
        self.ended(self.start("--peer", address, "--connect-timeout", "100 ms", *SHORT), 1,
                   [f"connecting to {address}: Connection refused", "expected a role that listens there"])

    def test_ctrl_c_ends_both_ends(self):
        answering, address = self.listening()
        measuring = self.start("--peer", address, *LONG, "--nic", self.folder / "cut.yaml")
        with self.assertRaises(subprocess.TimeoutExpired):
            measuring.wait(0.5)
        measuring.send_signal(signal.SIGINT)
        self.assertEqual(measuring.wait(10), 130)
        self.ended(answering, 1, ["the measuring end at 127.0.0.1:"])
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_peer_that_is_killed(self):
        answering, address = self.listening()
        measuring = self.start("--peer", address, *LONG)
        with self.assertRaises(subprocess.TimeoutExpired):
            measuring.wait(0.5)
        answering.kill()
        self.ended(measuring, 1, [address])

    def test_bad_usage(self):
        for words, says in [
                (["now"], "expected options only"),
                (["--sizes", "4"], "--sizes"),
                (["--sizes", ""], "--sizes"),
                (["--fragments", "3"], "expected a power of two"),
                (["--depths", "0"], "expected 1 to 4096"),
                (["--queues", "65"], "expected 1 to 64"),
                (["--op", "copy"], "write, read, all"),
                (["--seconds", "0 s"], "expected 1 ms to 1 h"),
                (["--working-set", "1 KiB"], "expected 1 MiB to 1 TiB"),
                (["--working-set", "1 MiB"], "expected at least"),
                (["--format", "xml"], "table, json, csv"),
                (["--transport", "modeled"], "expected shm, tcp or rdma"),
                (["--line", "25"], "--line"),
                (["--line", "0 bps", "--nic", "x.yaml"], "expected 1 Mbps"),
                (["--line", "1 Gbps"], "--line without --nic"),
                ([*FEW, "--nic", "x.yaml"], "expected at least 16 MiB"),
                (["--working-set", "1 TiB"], "of memory are free"),
                (["--processors", "5000"], "--processors"),
                (["--listen", "127.0.0.1:0", "--nic", "x.yaml"], "at the end that measures"),
                (["--listen", "0.0.0.0:0"], "no secret"),
                (["--peer", "nowhere"], "expected HOST:PORT")]:
            self.refused("calibrate", "link", *words, says=says)


if __name__ == "__main__":
    unittest.main()
