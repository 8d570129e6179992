#!/usr/bin/env python3
"""readme_outputs.py pastes what commands print, and only that."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent


def script(name, *words, **environment):
    return subprocess.run([sys.executable, str(SCRIPTS / name), *map(str, words)],
                          capture_output=True, text=True, check=False, env={**os.environ, **environment})


class ReadmeOutputs(unittest.TestCase):
    OLD = ("before\n```console\n$ ./kvlane a b\nold\n\nlines\n```\nbetween\n```sh\n./kvlane untouched\n```\n"
           "```console\n$ ./kvlane c | tr c d; ./kvlane e\n```\nafter\n")
    NEW = ("before\n```console\n$ ./kvlane a b\na b\n```\nbetween\n```sh\n./kvlane untouched\n```\n"
           "```console\n$ ./kvlane c | tr c d; ./kvlane e\nd\ne\n```\nafter\n")

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

    def test_a_program_that_is_not_there_changes_nothing(self):
        done = script("readme_outputs.py", self.file, KVLANE="./no/such/program")
        self.assertEqual(done.returncode, 1)
        self.assertIn("did not start", done.stderr)
        self.assertEqual(self.file.read_text(encoding="utf-8"), self.OLD)


if __name__ == "__main__":
    unittest.main()
