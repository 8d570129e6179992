"""--hardware FILE of run, sweep and compare: a scenario on another GPU."""

import csv
import json
import re
import unittest

from support import Case, LOOPBACK, ROOT, TINY


class Hardware(Case):
    def calibrated(self, name="mine", domain=True):
        """A GPU file as `calibrate` leaves one: the L40S under another name, fitted to few prompts."""
        text = (ROOT / "scenarios/hardware/l40s.yaml").read_text().replace('name: "L40S"', 'name: "mine"')
        if domain:
            text, count = re.subn(r"dimension: new_tokens, low: \S+, high: \d+", "dimension: new_tokens, low: 16, high: 512", text)
            self.assertEqual(count, 1)
        path = self.folder / f"{name}.yaml"
        path.write_text(text)
        return path

    def run_json(self, *words):
        return json.loads(self.kvlane("run", LOOPBACK, "--only", "full", "--no-verdict", "--format", "json", *words).out)

    def test_run_is_that_of_a_scenario_that_names_the_file(self):
        path = self.calibrated()
        scenario = self.folder / "changed.yaml"
        scenario.write_text((ROOT / LOOPBACK).read_text().replace("gpu: l4", f"gpu: {path}"))
        named = json.loads(self.kvlane("run", scenario, "--only", "full", "--no-verdict", "--format", "json").out)
        result = self.run_json("--hardware", path)
        self.assertEqual(result["strategies"], named["strategies"])
        self.assertNotEqual(result["strategies"], self.run_json()["strategies"])
        self.assertIn(str(path), [entry["path"] for entry in result["inputs"]])
        # A preset's name does too, and --set comes on top of it.
        self.assertNotEqual(self.run_json("--hardware", "a10")["run_hash"], self.run_json("--hardware", "l20")["run_hash"])
        self.assertEqual(self.run_json("--hardware", "a10", "--set", "instances.0.gpu=l4", "--set",
                                       "instances.decode.gpu=l4")["strategies"], self.run_json()["strategies"])

    def test_leaving_the_domain_warns_once_and_marks_the_result(self):
        result = self.run_json("--hardware", self.calibrated())
        warnings = [text for text in result["warnings"] if "mine prefix_attention" in text]
        self.assertEqual(len(warnings), 1, result["warnings"])
        self.assertIn("extrapolated", warnings[0])
        marks = [row for row in result["outside_domain"] if row["kernel"] == "prefix_attention"]
        self.assertEqual([(row["gpu"], row["dimension"], row["high"]) for row in marks], [("mine", "new_tokens", 512)])
        wide = self.run_json("--hardware", self.calibrated("wide", domain=False))
        self.assertEqual([row for row in wide["outside_domain"] if row["kernel"] == "prefix_attention"], [])

    def test_compare_runs_the_scenario_on_both(self):
        path = self.calibrated()
        answer = json.loads(self.kvlane("compare", LOOPBACK, "--hardware", path, "--format", "json").out)
        rows = {(row["strategy"], row["metric"]): row for row in answer["rows"]}
        own, other = self.run_json(), self.run_json("--hardware", path)
        row = rows["full", "ttst_s"]
        self.assertEqual(row["a"], own["strategies"][0]["metrics"]["ttst_s"]["mean"])
        self.assertEqual(row["b"], other["strategies"][0]["metrics"]["ttst_s"]["mean"])
        self.assertTrue(any(text.startswith("B: mine prefix_attention") for text in answer["warnings"]), answer)
        self.refused("compare", LOOPBACK, LOOPBACK, "--hardware", path, says="one SCENARIO.yaml")

    def test_sweep_runs_every_point_on_it(self):
        study = self.folder / "study.yaml"
        study.write_text(f"kind: study\nname: two\nscenario: {ROOT / LOOPBACK}\nstrategies: [full]\n"
                         "grid:\n  - {key: workload.output_tokens, values: [4, 16]}\n")
        path = self.calibrated()

        def rows(name, *words):
            self.kvlane("sweep", study, "--out", self.folder / name, "-j", "1", *words)
            return list(csv.DictReader((self.folder / name / "runs.csv").read_text().splitlines()))

        own, other = rows("own"), rows("other", "--hardware", path)
        alone = next(csv.DictReader(self.kvlane("run", LOOPBACK, "--only", "full", "--no-verdict", "--format", "csv",
                                                "--hardware", path).out.splitlines()))
        self.assertEqual(other[1]["ttst_mean_s"], alone["ttst_mean_s"])
        self.assertNotEqual(other[1]["ttst_mean_s"], own[1]["ttst_mean_s"])
        self.assertGreater(int(other[1]["outside_domain"]), 0)
        # The same folder with another file is another sweep.
        self.refused("sweep", study, "--out", self.folder / "other", "-j", "1", "--hardware", "l20")

    def test_bad_files(self):
        self.refused("run", LOOPBACK, "--hardware", self.folder / "none.yaml", says=["--hardware", "none.yaml"])
        self.refused("run", LOOPBACK, "--hardware", "a100x", says="preset")
        self.refused("run", LOOPBACK, "--hardware", "", says="expected a name")
        self.refused("run", LOOPBACK, "--hardware", "scenarios/hardware/erdma.yaml", says="erdma.yaml:")
        broken = self.calibrated("broken")
        broken.write_text(broken.read_text().replace("peak_flops:", "peak_flop:", 1))
        self.refused("run", TINY, "--hardware", broken, says=["broken.yaml:", "peak_flop"])
        # tiny.yaml has no tensor parallelism: asked for, the file must have the collective.
        self.refused("run", LOOPBACK, "--hardware", self.calibrated("single"), "--set", "instances.0.gpus=3", "--set",
                     "instances.0.tp=3")


if __name__ == "__main__":
    unittest.main()
