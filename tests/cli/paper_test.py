"""kvlane paper: each claim with its number, our number and a reason from the runs."""

import json
import unittest

from support import Case


class Paper(Case):
    def test_rows(self):
        result = json.loads(self.kvlane("paper", "--format", "json", "-j", "2").out)
        self.assertEqual(result["schema"], "kvlane.paper/1")
        rows = result["rows"]
        self.assertGreaterEqual(len(rows), 20)
        for row in rows:
            self.assertEqual(list(row), ["claim", "paper", "ours", "reading", "why"])
            self.assertTrue(row["claim"] and row["reading"] and row["why"])
            self.assertNotEqual(row["paper"], 0)
            self.assertIsInstance(row["ours"], (float, int, type(None)))
        self.assertEqual(len({(r["claim"], r["reading"]) for r in rows}), len(rows))
        # Both readings of TTST are there.
        self.assertTrue(any("gap" in r["reading"] for r in rows))
        self.assertTrue(any("arrival" in r["reading"] for r in rows), sorted({r["reading"] for r in rows}))


if __name__ == "__main__":
    unittest.main()
