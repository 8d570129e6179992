#!/usr/bin/env python3
"""The scripts that write text for documents."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent


def script(name, *words, stdin="", **environment):
    return subprocess.run([sys.executable, str(SCRIPTS / name), *map(str, words)], input=stdin,
                          capture_output=True, text=True, check=False, env={**os.environ, **environment})


class ClaimsTable(unittest.TestCase):
    def row(self, reading, ours, claim="TTST full / SmartGen"):
        return {"claim": claim, "paper": 4.3, "ours": ours, "reading": reading, "why": "because"}

    def test_both_readings_of_ttst_share_a_row(self):
        rows = [self.row("gap t2 - t1, HATA", 7.98), self.row("from arrival, HATA", 3.77),
                self.row("gap t2 - t1", 5.95), self.row("from arrival", 3.08),
                self.row("ratio of all blocks", None, "accuracy")]
        done = script("claims_table.py", stdin=json.dumps({"schema": "kvlane.paper/1", "rows": rows}))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[2:],
                         ["| TTST full / SmartGen | HATA | 4.30 | 7.98 | 3.77 |",
                          "| TTST full / SmartGen |  | 4.30 | 5.95 | 3.08 |",
                          "| accuracy | ratio of all blocks | 4.30 | – |  |"])

    def test_refuses_what_is_no_claims(self):
        for text in ("", "[]", '{"schema": "kvlane.result/1"}'):
            done = script("claims_table.py", stdin=text)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr.count("\n"), 1)


class ReadmeOutputs(unittest.TestCase):
    OLD = ("before\n```console\n$ ./kvlane a b\nold\n\nlines\n```\nbetween\n```sh\n./kvlane untouched\n```\n"
           "<!-- output of: ./kvlane c | tr c d -->\n<!-- end of output -->\nafter\n")
    NEW = ("before\n```console\n$ ./kvlane a b\na b\n```\nbetween\n```sh\n./kvlane untouched\n```\n"
           "<!-- output of: ./kvlane c | tr c d -->\nd\n<!-- end of output -->\nafter\n")

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = pathlib.Path(self.folder.name) / "page.md"
        self.file.write_text(self.OLD, encoding="utf-8")

    def test_check_changes_nothing_and_tells(self):
        done = script("readme_outputs.py", "--check", self.file, KVLANE="echo")
        self.assertEqual(done.returncode, 1)
        self.assertIn("-old\n", done.stdout)
        self.assertEqual(self.file.read_text(encoding="utf-8"), self.OLD)

    def test_pastes_what_the_commands_print(self):
        done = script("readme_outputs.py", self.file, KVLANE="echo")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.file.read_text(encoding="utf-8"), self.NEW)
        self.assertEqual(script("readme_outputs.py", "--check", self.file, KVLANE="echo").returncode, 0)


if __name__ == "__main__":
    unittest.main()
