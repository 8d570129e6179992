"""kvlane compare, on results of kvlane run."""

import csv
import json
import unittest

from support import Case, LOOPBACK


class Compare(Case):
    def result(self, name, *words):
        path = self.folder / name
        path.write_text(self.kvlane("run", LOOPBACK, "--no-verdict", "--format", "json", *words).out)
        return path

    def test_same_and_slower(self):
        base = self.result("a.json")
        slow = self.result("b.json", "--set", "instances.decode.nic.rate=2 Gbps")
        same = json.loads(self.kvlane("compare", base, base, "--format", "json").out)
        self.assertEqual(same["schema"], "kvlane.compare/1")
        self.assertTrue(same["rows"])
        self.assertEqual({row["ratio"] for row in same["rows"] if row["a"]}, {1})
        rows = json.loads(self.kvlane("compare", base, slow, "--format", "json").out)["rows"]
        [row] = [r for r in rows if r["strategy"] == "full" and r["metric"] == "second_token_s"]
        self.assertGreater(row["ratio"], 1.5)
        table = list(csv.DictReader(self.kvlane("compare", base, slow, "--format", "csv").out.splitlines()))
        self.assertEqual(len(table), len(rows))
        self.assertIn("second", self.kvlane("compare", base, slow).out)

    def test_refused(self):
        base = self.result("a.json", "--only", "full")
        text = base.read_text()
        self.refused("compare", base, says="1 files")
        self.refused("compare", self.folder / "none.json", base, says="none.json")
        # The first of two files that cannot be read is named.
        self.refused("compare", self.folder / "first.json", self.folder / "second.json", says="first.json")
        for name, content in (("cut", text[:len(text) // 2]), ("empty", ""), ("list", "[]"), ("zero", text + "\0]}"),
                              ("schema", text.replace("kvlane.result/1", "kvlane.result/9"))):
            path = self.folder / f"{name}.json"
            path.write_text(content)
            self.refused("compare", base, path, says=f"{name}.json")


if __name__ == "__main__":
    unittest.main()
