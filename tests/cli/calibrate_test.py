"""kvlane calibrate kernels, memory, pcie, all and report: a quick run on this machine's CPU."""

import json
import os
import pathlib
import signal
import subprocess
import time
import unittest

from support import Case, LOOPBACK, ROOT

QUICK = ("--quick", "--force", "--threads", "2")


class Calibrate(Case):
    def samples(self, path):
        return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]

    def test_all_measures_fits_and_is_validated_alike(self):
        yaml, lines = self.folder / "mine.yaml", self.folder / "mine.samples.jsonl"
        done = self.kvlane("calibrate", "all", "-o", yaml, "--format", "json", *QUICK)
        answer = json.loads(done.out)
        rows = {row["what"]: row for row in answer["rows"]}
        for what in ("gemm", "prefill", "decode", "topk", "rms_norm", "read"):
            self.assertIn(what, rows)
            self.assertEqual(rows[what]["domain"], "held out")
            self.assertGreater(rows[what]["n"], 0)
        samples = self.samples(lines)
        kernels = {sample["kernel"] for sample in samples}
        self.assertLessEqual({"gemm", "copy", "read", "hack_attention", "kv_gather", "index_split"}, kernels)
        for sample in samples:
            self.assertIn("a quick run, warm", sample["problem"])
            self.assertEqual(sample["threads"], 2)
            self.assertTrue(sample["source"].startswith("measured by kvlane"))
            self.assertTrue(sample["commit"] and sample["driver"] and sample["clock_state"])
        # The same held-out errors from the two files.
        again = json.loads(self.kvlane("calibrate", "validate", lines, "--hardware", yaml, "--format", "json").out)
        held = [row for row in again["rows"] if row["domain"] == "held out" and not row["what"].startswith("table_")]
        self.assertEqual(held, answer["rows"])
        # fit makes the same file of the samples.
        self.kvlane("calibrate", "fit", lines, "-o", self.folder / "again.yaml")
        self.assertEqual((self.folder / "again.yaml").read_text(), yaml.read_text())
        self.kvlane("validate", yaml)
        # A run rests on it.
        run = json.loads(self.kvlane("run", LOOPBACK, "--hardware", yaml, "--no-verdict", "--format", "json").out)
        self.assertIn(str(yaml), [entry["path"] for entry in run["inputs"]])
        # Neither file is replaced without --force.
        text = yaml.read_text()
        self.refused("calibrate", "all", "-o", yaml, "--quick", says="--force")
        yaml.unlink()
        self.refused("calibrate", "all", "-o", yaml, "--quick", says=["mine.samples.jsonl", "--force"])
        yaml.write_text(text)
        self.report(yaml, lines)

    def report(self, yaml, lines):
        out = self.folder / "figures"
        done = subprocess.run([os.environ["KVLANE"], "calibrate", "report", lines, "--hardware", yaml, "--out", out],
                              capture_output=True, cwd=ROOT, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        table = (out / "calibration.csv").read_text().splitlines()
        self.assertEqual(table[0], "kernel,variant,shape,part,measured_s,p25_s,p75_s,fitted_s,flops,bytes")
        self.assertEqual(len(table) - 1, len(self.samples(lines)))
        self.assertIn("gemm_flop_per_s", (out / "ceilings.csv").read_text())
        if not done.stderr:  # python3 with matplotlib is there
            self.assertEqual(sorted(path.name for path in out.glob("*.png")), ["measured_fitted.png", "rooflines.png"])
        self.refused("calibrate", "report", lines, "--hardware", yaml, says="--out")
        self.refused("calibrate", "report", lines, "--hardware", "l4", "--out", self.folder / "other", says="no sample of L4")

    def test_memory_and_pcie(self):
        for action, variants in (("memory", {"memory copy", "memory copy, one thread"}),
                                 ("pcie", {"memory copy", "memory copy, both ways at once"})):
            path = self.folder / f"{action}.jsonl"
            answer = json.loads(self.kvlane("calibrate", action, "-o", path, "--format", "json", *QUICK).out)
            self.assertEqual(answer["schema"], "kvlane.calibrate_measure/1")
            self.assertGreater(answer["ceilings"]["copy_bytes_per_s"], 1e8)
            copies = [sample for sample in self.samples(path) if sample["kernel"] == "copy"]
            self.assertEqual({sample["variant"].split(":")[0] for sample in copies}, variants)
            # One way counts, the others stand beside it.
            self.assertEqual({sample["variant"].split(":")[0] for sample in copies if "set_aside" not in sample},
                             {"memory copy"})
        table = self.kvlane("calibrate", "memory", "-o", self.folder / "again.jsonl", *QUICK).out
        for word in ("ceilings: read", "memory copy, one thread", "spread", "warning: "):
            self.assertIn(word, table)

    def test_bad_words(self):
        out = self.folder / "x.jsonl"
        self.refused("calibrate", "kernels", "--device", "tpu", "-o", out, says=["'tpu'", "cuda:N"])
        self.refused("calibrate", "kernels", says="-o")
        self.refused("calibrate", "kernels", "-o", out, "more", says="'more'")
        self.refused("calibrate", "kernels", "-o", out, "--threads", "-1", says="1 to 4096")
        self.refused("calibrate", "all", "-o", out, says="NAME.yaml")
        self.refused("calibrate", "memory", "-o", self.folder / "none" / "x.jsonl", "--quick", says="folder")

    @unittest.skipIf(pathlib.Path("/dev/nvidia0").exists(), "there is a GPU")
    def test_a_gpu_that_is_not_there(self):
        for action, out in (("kernels", "x.jsonl"), ("all", "x.yaml")):
            self.refused("calibrate", action, "--device", "cuda:0", "-o", self.folder / out, says="cuda:0")

    def test_ctrl_c_keeps_what_is_measured(self):
        # Cold caches and every shape: minutes, which this test does not have. A machine that is still at work on its
        # operands when the signal comes has nothing to keep: then once more, with more patience.
        for patience in (8, 40, 120):
            out = self.folder / f"part{patience}.jsonl"
            process = subprocess.Popen([os.environ["KVLANE"], "calibrate", "kernels", "-o", out, "--force"], cwd=ROOT,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(patience)
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=300)
            self.assertEqual(process.returncode, 130, stderr)
            if out.exists():
                break
        self.assertGreater(len(self.samples(out)), 0)
        self.assertIn(b"samples of", stdout)
        self.assertEqual([path.name for path in self.folder.iterdir()], [out.name])


if __name__ == "__main__":
    unittest.main()
