"""kvlane calibrate fit: samples to a hardware file, and what it refuses."""

import json
import unittest

from support import Case, ROOT

BASE = "scenarios/hardware/l40s.yaml"


def gemm_lines(machine="L40S", variant="lib-1", dtype="bf16"):
    """GEMMs of a GPU of 362.05 TFLOPS and 864 GB/s: t = 3 us + F / (60 % P) + B / (80 % BW)."""
    lines = []
    for m in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096):
        for n in (2048, 4096, 8192):
            for k in (2048, 4096):
                seconds = 3e-6 + 2 * m * n * k / (0.6 * 362.05e12) + 2 * (m * k + n * k + m * n) / (0.8 * 864e9)
                lines.append(json.dumps({"machine": machine, "source": "a test", "licence": "none", "variant": variant,
                                         "kernel": "gemm", "shape": {"m": m, "n": n, "k": k}, "dtype": dtype,
                                         "seconds": seconds}))
    return lines


class Fit(Case):
    def samples(self, lines, name="samples.jsonl"):
        path = self.folder / name
        path.write_text("".join(line + "\n" for line in lines))
        return path

    def test_constants_come_back_and_the_file_is_a_gpu(self):
        out = self.folder / "mine.yaml"
        done = self.kvlane("calibrate", "fit", self.samples(gemm_lines()), "-o", out, "--format", "json")
        answer = json.loads(done.out)
        self.assertEqual(answer["schema"], "kvlane.calibrate_fit/1")
        self.assertEqual(answer["machine"], "L40S")
        (gemm,) = answer["rows"]
        self.assertEqual(gemm["fitted"] + gemm["held_out"], 13 * 3 * 2)
        self.assertLess(gemm["mape"], 1e-3)
        self.assertAlmostEqual(gemm["constants"]["gemm_t0"], 3e-6, delta=3e-8)
        self.assertAlmostEqual(gemm["constants"]["gemm_ec"], 0.6, delta=6e-3)
        self.assertAlmostEqual(gemm["constants"]["gemm_em"], 0.8, delta=8e-3)
        self.kvlane("validate", out)
        rows = {row["key"]: row for row in json.loads(self.kvlane("show", "hardware", out, "--format", "json").out)["rows"]}
        self.assertEqual(rows["gemm_ec"]["source"], "table")
        self.assertIn("a test, lib-1", rows["gemm_ec"]["from"])
        self.assertAlmostEqual(rows["kernels.gemm.error"]["value"], gemm["mape"], delta=1e-4)
        shipped = json.loads(self.kvlane("show", "hardware", "l40s", "--format", "json").out)["rows"]
        for row in shipped:  # what the samples say nothing about
            if not row["key"].startswith(("gemm_t0", "gemm_e", "gemm_p", "kernels.gemm")):
                self.assertEqual(rows[row["key"]], row)

    def test_table(self):
        done = self.kvlane("calibrate", "fit", self.samples(gemm_lines()), "-o", self.folder / "mine.yaml")
        for text in ("L40S: error on shapes held out", "MAPE", "gemm (lib-1): gemm_t0 "):
            self.assertIn(text, done.out)

    def test_the_same_samples_make_the_same_file(self):
        samples = self.samples(gemm_lines())
        self.kvlane("calibrate", "fit", samples, "-o", self.folder / "one.yaml")
        self.kvlane("calibrate", "fit", samples, "-o", self.folder / "two.yaml", "--base", self.folder / "one.yaml")
        self.assertEqual((self.folder / "one.yaml").read_text(), (self.folder / "two.yaml").read_text())

    def test_outputs_are_not_replaced_unless_told(self):
        out = self.folder / "mine.yaml"
        out.write_text("mine\n")
        samples = self.samples(gemm_lines())
        self.refused("calibrate", "fit", samples, "-o", out, says="--force")
        self.assertEqual(out.read_text(), "mine\n")
        self.kvlane("calibrate", "fit", samples, "-o", out, "--force")
        self.refused("calibrate", "fit", samples, "-o", samples, "--force", says="samples.jsonl")

    def test_several_machines(self):
        samples = self.samples(gemm_lines() + gemm_lines("H100-SXM"))
        out = self.folder / "mine.yaml"
        self.refused("calibrate", "fit", samples, "-o", out, says=["--machine", "H100-SXM, L40S"])
        self.refused("calibrate", "fit", samples, "-o", out, "--machine", "L4", says=["`L4`", "H100-SXM, L40S"])
        self.kvlane("calibrate", "fit", samples, "-o", out, "--machine", "L40S")

    def test_a_machine_without_a_file_needs_a_base(self):
        samples = self.samples(gemm_lines("B7"))
        out = self.folder / "mine.yaml"
        self.refused("calibrate", "fit", samples, "-o", out, says=["`B7`", "--base"])
        self.refused("calibrate", "fit", samples, "-o", out, "--base", "l40s", says=["`L40S`", "`B7`"])
        base = self.folder / "base.yaml"
        base.write_text((ROOT / BASE).read_text().replace('name: "L40S"', 'name: "B7"'))
        self.kvlane("calibrate", "fit", samples, "-o", out, "--base", base)
        self.assertIn('name: "B7"', out.read_text())

    def test_several_variants(self):
        samples = self.samples(gemm_lines() + gemm_lines(variant="lib-2"))
        out = self.folder / "mine.yaml"
        self.refused("calibrate", "fit", samples, "-o", out, says=["lib-1", "lib-2", "--variant"])
        done = self.kvlane("calibrate", "fit", samples, "-o", out, "--variant", "gemm=lib-2", "--format", "json")
        self.assertEqual(json.loads(done.out)["rows"][0]["variant"], "lib-2")
        self.refused("calibrate", "fit", samples, "-o", out, "--force", "--variant", "gemm=lib-3", says="lib-3")
        self.refused("calibrate", "fit", samples, "-o", out, "--force", "--variant", "gemm", says="KERNEL=TEXT")
        self.refused("calibrate", "fit", samples, "-o", out, "--force", "--variant", "gem=x", says=["`gem`", "gemm"])
        self.refused("calibrate", "fit", samples, "-o", out, "--force", "--skip", "gemm", says="skipped")

    def test_bad_samples(self):
        out = self.folder / "mine.yaml"
        self.refused("calibrate", "fit", "-o", out, says="no samples")
        self.refused("calibrate", "fit", self.samples(gemm_lines()), says="-o")
        self.refused("calibrate", "fit", self.samples([]), "-o", out, says="no samples")
        self.refused("calibrate", "fit", self.samples(gemm_lines()[:9]), "-o", out, says=["rows to fit", "held out"])
        broken = self.samples(gemm_lines()[:3] + [gemm_lines()[3].replace('"seconds": ', '"seconds": -')], "broken.jsonl")
        self.refused("calibrate", "fit", broken, "-o", out, says="broken.jsonl:4:")

    def test_nic(self):
        lines = []
        for power in range(1, 24):
            size = 1 << power
            lines.append(json.dumps({"machine": "wire", "source": "a test", "licence": "none", "variant": "write",
                                     "kernel": "nic_message", "shape": {"bytes": size, "queue_pairs": 1}, "dtype": "",
                                     "seconds": max(200e-9, size / 12e9)}))
        out = self.folder / "card.yaml"
        done = self.kvlane("calibrate", "fit", self.samples(lines), "--nic", "card", "--base", "mlx5-100g", "-o", out,
                           "--format", "json")
        answer = json.loads(done.out)
        self.assertAlmostEqual(answer["message_rate"], 5e6, delta=5e4)
        self.assertAlmostEqual(answer["efficiency"], 0.96, delta=1e-3)  # 96 of 100 Gbit/s
        self.kvlane("validate", out)
        self.refused("calibrate", "fit", self.samples(lines[:6]), "--nic", "card", "--base", "mlx5-100g", "-o", out,
                     "--force", says=["nic_message", "held out"])


if __name__ == "__main__":
    unittest.main()
