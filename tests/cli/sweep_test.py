"""kvlane sweep on the smoke study. check_sweep.py has the kills, shards and threads."""

import csv
import glob
import json
import unittest

from support import Case, ROOT

STUDY = "scenarios/smoke/study.yaml"


class Sweep(Case):
    def test_formats_and_files_agree(self):
        out = self.folder / "out"
        result = json.loads(self.kvlane("sweep", STUDY, "--out", out, "--format", "json", "-j", "1").out)
        self.assertEqual((result["schema"], result["study"]), ("kvlane.sweep/1", "smoke"))
        crossovers = list(csv.DictReader((out / "crossovers.csv").read_text().splitlines()))
        self.assertEqual(len(crossovers), len(result["rows"]))
        for row, line in zip(result["rows"], crossovers):
            self.assertEqual([row[k] or "" for k in ("of", "against", "metric", "low", "high")],
                             [line[k] for k in ("of", "against", "metric", "low", "high")])
        # Again, from the journal: the same, as CSV and as a table.
        self.assertEqual(self.kvlane("sweep", STUDY, "--out", out, "--format", "csv").out,
                         (out / "crossovers.csv").read_text())
        table = self.kvlane("sweep", STUDY, "--out", out).out
        self.assertIn(str(out / "runs.csv"), table)
        # A row of the grid is the row of `run` with the same overrides.
        rows = list(csv.DictReader((out / "runs.csv").read_text().splitlines()))
        axes = [key for key in rows[0] if "." in key]
        words = [word for key in axes for word in ("--set", f"{key}={rows[0][key]}")]
        run = self.kvlane("run", "scenarios/smoke/loopback.yaml", "--no-verdict", "--format", "csv", "--only",
                          rows[0]["strategy"], *words).out
        [alone] = csv.DictReader(run.splitlines())
        same = ("ttst_mean_s", "tbt_p99_s", "jct_max_s", "total_bytes", "busiest_port")
        self.assertEqual([alone[k] for k in same], [rows[0][k] for k in same])

    def test_first_point_of_each_study_that_ships(self):
        studies = sorted(glob.glob("scenarios/studies/*.yaml", root_dir=ROOT))
        self.assertGreaterEqual(len(studies), 3)
        for index, study in enumerate(studies):
            out = self.folder / str(index)
            text = self.kvlane("sweep", study, "--out", out, "--shard", "1/1000").out
            self.assertIn("shard 1/1000", text)
            self.assertEqual([p.name for p in out.iterdir()], ["journal-1-of-1000.jsonl"])


if __name__ == "__main__":
    unittest.main()
