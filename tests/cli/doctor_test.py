"""kvlane doctor: its table, its JSON, its exit statuses, on this machine and on one that is made up."""

import json
import os
import subprocess
import unittest

from support import Case, ROOT


class Doctor(Case):
    def put(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def machine(self):
        self.put("proc/sys/kernel/osrelease", "6.1.0-13-amd64\n")
        self.put("sys/class/net/lo/flags", "0x9\n")
        self.put("sys/class/net/lo/operstate", "unknown\n")
        self.put("proc/sys/net/ipv4/tcp_slow_start_after_idle", "1\n")

    def doctor(self, *words):
        done = subprocess.run([os.environ["KVLANE"], "doctor", *map(str, words)], capture_output=True, text=True, cwd=ROOT,
                              check=False, stdin=subprocess.DEVNULL)
        self.assertEqual(done.stderr, "", words)
        return done

    def test_a_made_up_machine(self):
        self.machine()
        done = self.doctor("--root", self.folder)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^loopback +ok +up$")
        self.assertRegex(done.stdout, r"(?m)^tcp_slow_start_after_idle +bad ")
        self.assertRegex(done.stdout, r"(?m)^  tcp_slow_start_after_idle +sysctl -w net\.ipv4\.")
        self.assertRegex(done.stdout, r"(?m)^tcp +possible$")
        self.assertRegex(done.stdout, r"(?m)^rdma +not possible: ")
        for path, status in [("tcp", 0), ("shm", 0), ("rdma", 1), ("cuda", 1)]:
            self.assertEqual(self.doctor("--root", self.folder, "--for", path).returncode, status, path)
        self.put("sys/class/net/lo/flags", "0x8\n")
        self.assertEqual(self.doctor("--root", self.folder).returncode, 1)

    def test_rows(self):
        self.machine()
        result = json.loads(self.doctor("--root", self.folder, "--format", "json").stdout)
        self.assertEqual(result["schema"], "kvlane.doctor/1")
        rows = {row["check"]: row for row in result["rows"]}
        self.assertEqual(len(rows), len(result["rows"]), "a check is named once")
        for row in result["rows"]:
            self.assertEqual(sorted(row), ["blocks", "check", "found", "mend", "verdict"])
            self.assertIn(row["verdict"], ["ok", "missing", "bad", "skipped"])
            if row["verdict"] in ("ok", "skipped"):
                self.assertEqual((row["mend"], row["blocks"]), (None, []))
        self.assertEqual(rows["rdma devices"]["blocks"], ["rdma"])
        self.assertIn("rdma link add", rows["rdma devices"]["mend"])

    def test_this_machine(self):
        done = self.doctor("--format", "json")
        self.assertIn(done.returncode, (0, 1))
        rows = {row["check"]: row for row in json.loads(done.stdout)["rows"]}
        self.assertNotEqual(rows["processors"]["verdict"], "skipped")
        # What stands in the way decides, whatever this machine is.
        blocked = any("tcp" in row["blocks"] for row in rows.values())
        self.assertEqual(done.returncode, 1 if blocked else 0)

    def test_bad_usage(self):
        self.refused("doctor", "--for", "tape", says=["--for: 'tape'", "tcp, shm, rdma, cuda"])
        self.refused("doctor", "--format", "xml", says="table, json")
        self.refused("doctor", "now", says="expected none")
        self.refused("doctor", "--memory", "much", says=["--memory", "64 KiB"])
        self.refused("doctor", "--root", self.folder / "none", says=["--root", "expected one with proc and sys"])


if __name__ == "__main__":
    unittest.main()
