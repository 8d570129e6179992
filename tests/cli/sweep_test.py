"""kvlane sweep on the smoke study. check_sweep.py has the kills, shards and threads."""

import csv
import glob
import json
import math
import unittest

from support import Case, ROOT, with_errors

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

    def test_crossover_interval_of_a_nic_error(self):
        # A NIC that is f times slower on both sides is one of rate / f: its crossover lies at f times the nominal
        # one (latencies weigh nothing here). f is lognormal with sigma = error sqrt(pi/2), so 90 % lie within
        # exp(+-1.645 sigma). The 5 % quantile of 200 draws is off by 0.150 sigma (one deviation); the bracket by 0.5 %.
        draws, error = 200, 0.02
        sigma = error * math.sqrt(math.pi / 2)
        scenario = with_errors(self.folder, "scenarios/smoke/loopback.yaml", nic=error)
        study = self.folder / "study.yaml"
        axis = "instances.decode.nic.rate"
        study.write_text(
            f"kind: study\nname: nic\nscenario: {scenario.name}\nstrategies: [full, hack]\ngrid:\n"
            f"  - {{key: workload.output_tokens, values: [8]}}\n"
            f"  - {{key: {axis}, also: [instances.prefill.nic.rate], values: [1 Gbps, 5 Gbps, 25 Gbps]}}\n"
            f"uncertainty: {draws}\n"
            f"crossovers:\n  - {{of: hack, against: full, metric: tbt_s, over: {axis}}}\n")

        def number(text):
            return float(text.split()[0])

        answers = []
        for name, jobs in (("one", 1), ("two", 2)):
            out = self.folder / name
            text = self.kvlane("sweep", study, "--out", out, "-j", jobs).out
            answers.append((out / "crossovers.csv").read_bytes())
        self.assertEqual(answers[0], answers[1])
        self.assertIn(f"90 % of {draws} draws", text)
        self.assertIn("no error is stated for L4 (", text)
        [row] = csv.DictReader(answers[0].decode().splitlines())
        nominal = math.sqrt(number(row["low"]) * number(row["high"]))
        for end, sign in (("low90", -1), ("high90", 1)):
            deviations = math.log(number(row[end]) / nominal) / sigma
            self.assertAlmostEqual(deviations, sign * 1.645, delta=4 * 0.150 + 0.01 / sigma, msg=end)
        self.assertEqual(row["draws_without"], "0")
        # Fewer draws are the first of many: the journal has them, and --uncertainty goes before the study.
        journal = (self.folder / "one" / "journal.jsonl").read_bytes()
        rows = json.loads(self.kvlane("sweep", study, "--out", self.folder / "one", "--uncertainty", "20", "--format",
                                      "json").out)
        self.assertEqual(rows["uncertainty"]["draws"], 20)
        self.assertLess(rows["rows"][0]["low90"], rows["rows"][0]["high90"])
        self.assertEqual((self.folder / "one" / "journal.jsonl").read_bytes(), journal)

    def test_wrong_draws_are_refused(self):
        for words in (["--uncertainty", "1"], ["--uncertainty", "ten"]):
            self.refused("sweep", STUDY, "--out", self.folder / "none", *words, says="a whole number from 2 to 10000")


if __name__ == "__main__":
    unittest.main()
