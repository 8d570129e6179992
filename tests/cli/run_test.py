"""kvlane run: formats, options, output files."""

import csv
import json
import unittest

from support import Case, LOOPBACK, TINY, with_errors

METRICS = ("ttft_s", "ttst_s", "second_token_s", "stall_s", "tbt_s", "jct_s")


class Run(Case):
    def test_json_has_what_scripts_use(self):
        result = json.loads(self.kvlane("run", LOOPBACK, "--format", "json").out)
        self.assertEqual(result["schema"], "kvlane.result/1")
        self.assertEqual(result["scenario"], "smoke/loopback")
        self.assertEqual(result["first_token"], "prefill")
        self.assertTrue(result["verdict"])
        self.assertRegex(result["run_hash"], "^[0-9a-f]{16}$")
        self.assertEqual(result["inputs"][0]["path"], LOOPBACK)
        self.assertEqual([s["name"] for s in result["strategies"]], ["full", "sequential", "hack", "smartgen"])
        for s in result["strategies"]:
            self.assertEqual(tuple(s["metrics"]), METRICS)
            for m in s["metrics"].values():
                self.assertLessEqual(m["p50"], m["p90"])
                self.assertLessEqual(m["p90"], m["p99"])
                self.assertLessEqual(m["p99"], m["max"])
            # The parts add up to the mean, the lanes to the total, token times rise.
            self.assertAlmostEqual(sum(s["ttst_parts_s"].values()), s["metrics"]["ttst_s"]["mean"], delta=1e-9)
            self.assertAlmostEqual(sum(s["ttft_parts_s"].values()), s["metrics"]["ttft_s"]["mean"], delta=1e-9)
            lanes = dict(s["bytes"])
            self.assertEqual(lanes.pop("total"), sum(lanes.values()))
            self.assertEqual(s["ctl_s"], sorted(s["ctl_s"]))
            self.assertEqual(len(s["ctl_s"]), 16)
            self.assertEqual(len(s["on_demand_ratio"]), 15)
            self.assertTrue(all(0 <= share <= 1 for share in s["utilisation"].values()))
        self.assertEqual(set(result["strategies"][0]["speedup_vs_full"].values()), {1})

    def test_table_is_the_default_and_csv_has_a_row_a_strategy(self):
        table = self.kvlane("run", LOOPBACK, "--no-verdict").out
        self.assertEqual(self.kvlane("run", LOOPBACK, "--no-verdict", "--format", "table").out, table)
        for word in ("smoke/loopback", "ttst", "TTST by cause", "Bytes sent, by lane", "Utilisation", "run_hash"):
            self.assertIn(word, table)
        self.assertLessEqual(max(map(len, table.splitlines())), 100)
        rows = list(csv.DictReader(self.kvlane("run", LOOPBACK, "--no-verdict", "--format", "csv").out.splitlines()))
        self.assertEqual([r["strategy"] for r in rows], ["full", "sequential", "hack", "smartgen"])

    def test_only_runs_what_it_names(self):
        def strategies(*words):
            done = self.kvlane("run", LOOPBACK, "--no-verdict", "--format", "json", *words)
            return {s["name"]: s for s in json.loads(done.out)["strategies"]}

        one = strategies("--only", "smartgen")
        self.assertEqual(list(one), ["smartgen"])
        self.assertIsNone(one["smartgen"]["speedup_vs_full"])
        two = strategies("--only", "smartgen", "--only", "full")
        self.assertEqual(list(two), ["full", "smartgen"])  # in the scenario's order
        # A strategy does not know which others run.
        self.assertEqual(one["smartgen"]["metrics"], two["smartgen"]["metrics"])

    def test_set_overrides_as_the_file_would(self):
        def result(path, *words):
            done = json.loads(self.kvlane("run", path, "--no-verdict", "--format", "json", *words).out)
            return done["strategies"]

        file = self.folder / "changed.yaml"
        with open(LOOPBACK, encoding="utf-8") as original:
            text = original.read()
        self.assertEqual(text.count("output_tokens: 16"), 1)
        file.write_text(text.replace("output_tokens: 16", "output_tokens: 5"))
        self.assertEqual(result(LOOPBACK, "--set", "workload.output_tokens=5"), result(file))
        slow = result(LOOPBACK, "--set", "instances.decode.nic.rate=1 Gbps", "--only", "full")
        fast = result(LOOPBACK, "--set", "instances.decode.nic.rate=10 Gbps", "--only", "full")
        self.assertGreater(slow[0]["metrics"]["second_token_s"]["mean"], fast[0]["metrics"]["second_token_s"]["mean"])

    def test_seeds_pool_and_add_a_spread(self):
        one = json.loads(self.kvlane("run", LOOPBACK, "--no-verdict", "--format", "json", "--only", "smartgen").out)
        self.assertNotIn("spread", one["strategies"][0]["metrics"]["tbt_s"])
        two = json.loads(self.kvlane("run", LOOPBACK, "--no-verdict", "--format", "json", "--only", "smartgen",
                                     "--set", "seeds=2").out)
        self.assertGreaterEqual(two["strategies"][0]["metrics"]["tbt_s"]["spread"], 0)
        self.assertNotEqual(one["run_hash"], two["run_hash"])


class Files(Case):
    def test_out_makes_the_folder_and_does_not_overwrite(self):
        out = self.folder / "a" / "b"
        words = ("run", LOOPBACK, "--only", "full", "--no-verdict", "--out", out)
        stdout = self.kvlane(*words, "--format", "json").out
        self.assertEqual(sorted(p.name for p in out.iterdir()), ["result.csv", "result.json", "result.txt"])
        self.assertEqual((out / "result.json").read_text(), stdout)
        (out / "result.csv").write_text("mine")
        self.refused(*words, says="--force")
        self.assertEqual((out / "result.csv").read_text(), "mine")
        self.kvlane(*words, "--force")
        self.assertNotEqual((out / "result.csv").read_text(), "mine")

    def test_requests_one_row_a_request(self):
        path = self.folder / "requests.csv"
        words = ("run", TINY, "--only", "full", "--only", "smartgen", "--no-verdict", "--requests", path)
        self.kvlane(*words)
        rows = list(csv.DictReader(path.read_text().splitlines()))
        self.assertEqual(len(rows), 2 * 3)
        self.assertEqual({r["strategy"] for r in rows}, {"full", "smartgen"})
        before = path.read_bytes()
        self.refused(*words, says="--force")
        self.assertEqual(path.read_bytes(), before)
        self.kvlane(*words, "--force")
        self.assertEqual(path.read_bytes(), before)

    def test_trace_is_written_whole_or_not_at_all(self):
        path = self.folder / "trace.json"
        words = ("run", LOOPBACK, "--no-verdict", "--trace", path)
        self.kvlane(*words, "--only", "full")
        trace = json.loads(path.read_text())
        names = {e["args"]["name"] for e in trace["traceEvents"] if e.get("name") == "process_name"}
        self.assertEqual(names, {"full"})
        self.assertEqual(list(self.folder.iterdir()), [path])  # no temporary file stays
        self.refused(*words, "--only", "full", says="--force")
        self.refused(*words, "--force", "--only", "nothing", says="nothing")
        self.assertEqual(json.loads(path.read_text()), trace)

    def test_outputs_of_the_scenario(self):
        self.kvlane("run", LOOPBACK, "--no-verdict", "--only", "full", "--set", f"outputs.dir={self.folder / 'out'}",
                    "--set", f"outputs.requests={self.folder / 'requests.csv'}")
        self.assertEqual(len(list((self.folder / "out").iterdir())), 3)
        self.assertTrue((self.folder / "requests.csv").exists())


class Uncertainty(Case):
    def test_intervals_are_around_the_nominal_numbers_whatever_the_threads(self):
        path = with_errors(self.folder, LOOPBACK, nic=0.05, gemm=0.1, decode_attention=0.1)
        nominal = json.loads(self.kvlane("run", path, "--format", "json").out)
        one = self.kvlane("run", path, "--format", "json", "--uncertainty", "40", "-j", "1").out
        self.assertEqual(self.kvlane("run", path, "--format", "json", "--uncertainty", "40", "-j", "3").out, one)
        result = json.loads(one)
        self.assertEqual(result["run_hash"], nominal["run_hash"])
        self.assertEqual(result["uncertainty"]["draws"], 40)
        for with_draws, without in zip(result["strategies"], nominal["strategies"]):
            for name, metric in with_draws["metrics"].items():
                low, high = metric.pop("low"), metric.pop("high")
                # The stall is a difference: a nominal run in step with its ideal is out of step in the draws.
                self.assertLess(low, high if name == "stall_s" else metric["mean"], name)
                self.assertGreater(high, low if name == "stall_s" else metric["mean"], name)
            self.assertEqual(with_draws, without)
        pairs = {(r["of"], r["against"]) for r in result["uncertainty"]["ratios"]}
        self.assertEqual(len(result["uncertainty"]["ratios"]), 4 * len(pairs))
        self.assertEqual(len(pairs), 6)  # of four strategies
        # Only what has no error is named: not what has one.
        [warning] = [w for w in result["warnings"] if "no error is stated" in w]
        self.assertNotIn("gemm", warning)
        self.assertIn("L4 (", warning)
        table = self.kvlane("run", path, "--uncertainty", "40").out
        self.assertIn("90 % of 40 draws", table)
        self.assertIn("Against full with the same errors", table)
        self.assertLessEqual(max(map(len, table.splitlines())), 100)
        # Both results have intervals: `compare` shows them.
        for name in ("a.json", "b.json"):
            (self.folder / name).write_text(one)
        both = self.kvlane("compare", self.folder / "a.json", self.folder / "b.json", "--format", "json").out
        rows = json.loads(both)
        [ttst] = [r for r in rows["rows"] if r["strategy"] == "full" and r["metric"] == "ttst_s"]
        self.assertLess(ttst["a_low"], ttst["a"])
        self.assertEqual(ttst["a_high"], ttst["b_high"])

    def test_wrong_draws_are_refused(self):
        for value in ("1", "10001", "ten", "3.5", "-5"):
            self.refused("run", TINY, f"--uncertainty={value}", says="a whole number from 2 to 10000")
        self.refused("run", TINY, "-j", "2", says="-j without --uncertainty")
        self.refused("run", TINY, "--uncertainty", "4", "-j", "0", says="expected a whole number from 1")

    def test_a_nic_error_is_a_share(self):
        path = with_errors(self.folder, LOOPBACK, nic=3)
        self.refused("run", path, says=("mlx5-25g.yaml:", "`300 %` is out of range; expected 0 % to 200 %"))


if __name__ == "__main__":
    unittest.main()
