"""kvlane calibrate import: samples, counts, refusals."""

import json
import unittest

from support import ROOT, Case

FIXTURES = ROOT / "tests/fixtures/import"
LAB = ("--machine", "cx9", "--source", "lab 3", "--licence", "CC0-1.0")


class Import(Case):
    def lines(self, path):
        return [json.loads(line) for line in path.read_text().splitlines()]

    def test_samples_are_whole_json_lines(self):
        out = self.folder / "samples.jsonl"
        done = self.kvlane("calibrate", "import", "--format", "splitwise", FIXTURES / "splitwise/perf_model.csv",
                           "-o", out)
        samples = self.lines(out)
        self.assertEqual(len(samples), 6)
        self.assertEqual(samples[0], {
            "machine": "A100-80-SXM", "source": "splitwise-sim 8f99e7d", "licence": "MIT", "variant": "splitwise",
            "kernel": "serving_prefill", "shape": {"sequences": 4, "prompt_tokens": 512, "ranks": 2}, "dtype": "fp16",
            "seconds": 0.2, "model": "model-70b"})
        self.assertEqual([s.get("set_aside") for s in samples],
                         [None, None, "broken_upstream", "broken_upstream", None, None])
        self.assertIn("6 samples", done.out)
        self.assertIn("set aside, broken_upstream: 2", done.out)

    def test_counts_as_json(self):
        out = self.folder / "samples.jsonl"
        done = self.kvlane("calibrate", "import", "--format", "vidur", FIXTURES / "vidur/net_h100_dgx_all_reduce.csv",
                           FIXTURES / "vidur/net_a40_pairwise_nvlink_send_recv.csv", "-o", out, "--report", "json")
        report = json.loads(done.out)
        self.assertEqual(report["schema"], "kvlane.calibrate_import/1")
        rows = {(r["what"], r["machine"], r["name"]): r["count"] for r in report["rows"]}
        self.assertEqual(rows[("samples", "H100-SXM", "all_reduce")], 1)
        self.assertEqual(rows[("samples", "A40", "send_recv")], 1)
        self.assertEqual(rows[("skipped", "", "collectives over several nodes")], 2)

    def test_l2_comes_from_the_hardware_file_and_its_absence_is_said(self):
        # 1 MiB of KV fits any L2; 64 GiB none.
        table = "framework,kernel,kv_dtype,batch,kv_len,num_q_heads,num_kv_heads,latency_ms\n"
        rows = table + "l,k,bfloat16,1,255,8,8,5\nl,k,bfloat16,16,1048575,8,8,60000\n"
        for gpu, rule, said in (("l40s", "l2_resident", False), ("nobodys", None, True)):
            file = self.folder / f"attn_decode_{gpu}.csv"
            file.write_text(rows)
            out = self.folder / f"{gpu}.jsonl"
            done = self.kvlane("calibrate", "import", "--format", "aiconfigurator", file, "-o", out)
            self.assertEqual([s.get("set_aside") for s in self.lines(out)], [rule, None])
            self.assertEqual("no hardware file for nobodys" in done.out, said)

    def test_tools_need_to_be_told_machine_source_and_licence(self):
        out = self.folder / "samples.jsonl"
        files = [FIXTURES / "perftest" / name for name in ("write_bw.txt", "read_lat.txt", "write_bw.json")]
        self.refused("calibrate", "import", "--format", "perftest", *files, "-o", out,
                     says="--machine, --source and --licence")
        self.kvlane("calibrate", "import", "--format", "perftest", *files, "-o", out, *LAB)
        samples = self.lines(out)
        self.assertEqual({(s["machine"], s["source"], s["licence"]) for s in samples}, {("cx9", "lab 3", "CC0-1.0")})
        self.assertEqual([s["kernel"] for s in samples], ["nic_message", "nic_message", "nic_latency", "nic_message"])
        self.refused("calibrate", "import", "--format", "pcie", FIXTURES / "pcie/copies.csv", "-o", self.folder / "x",
                     "--machine", "A10", says="names its machines itself")

    def test_a_broken_row_leaves_no_file(self):
        broken = self.folder / "gemm_bf16_l40s.csv"
        good = FIXTURES / "aiconfigurator/gemm_bf16_h100_sxm.csv"
        for row, where in (("1,2,3", "3:1: 3 fields"), ("1,2,3,0", "3:7: `0` in column `latency_ms`"),
                           ("1,2,3,nan", "3:7: `nan`"), ("1,2,3,-1", "3:7: `-1`")):
            broken.write_text(f"m,n,k,latency_ms\n1,2,3,4\n{row}\n")
            self.refused("calibrate", "import", "--format", "aiconfigurator", good, broken,
                         "-o", self.folder / "s.jsonl", says=f"gemm_bf16_l40s.csv:{where}")

    def test_usage(self):
        file, out = FIXTURES / "pcie/copies.csv", self.folder / "s.jsonl"
        self.refused("calibrate", "import", file, "-o", out, says="no --format")
        self.refused("calibrate", "import", "--format", "apples", file, "-o", out,
                     says="expected one of aiconfigurator")
        self.refused("calibrate", "import", "--format", "pcie", file, says="no -o")
        self.refused("calibrate", "import", "--format", "pcie", "-o", out, says="no files")
        self.refused("calibrate", "import", "--format", "pcie", "nowhere.csv", "-o", out, says="nowhere.csv")
        self.refused("calibrate", "import", "--format", "pcie", file, "-o", self.folder / "no/s.jsonl")

    def test_files_are_not_replaced_unasked(self):
        file, out = FIXTURES / "pcie/copies.csv", self.folder / "s.jsonl"
        out.write_text("mine")
        self.refused("calibrate", "import", "--format", "pcie", file, "-o", out, says="--force")
        self.assertEqual(out.read_text(), "mine")
        self.kvlane("calibrate", "import", "--format", "pcie", file, "-o", out, "--force")
        self.assertEqual(len(self.lines(out)), 2)
        copy = self.folder / "copies.csv"
        copy.write_text(file.read_text())
        self.refused("calibrate", "import", "--format", "pcie", copy, "-o", copy, "--force")

    def test_help_names_formats_and_rules(self):
        text = self.kvlane("calibrate", "import", "--help").out
        for word in ("aiconfigurator", "vidur", "llmservingsim", "frontier", "splitwise", "tensorrt-llm",
                     "llm-inference-bench", "llmcompass", "l20", "perftest-curves", "perftest", "nixlbench", "mooncake",
                     "pcie", "l2_resident", "throttled", "duplicate", "copied", "broken_upstream"):
            self.assertIn(word, text)


if __name__ == "__main__":
    unittest.main()
