#!/usr/bin/env python3
"""Every script draws its figure from the fixtures, and refuses what it cannot read. Exit 77: skipped."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import matplotlib  # noqa: F401
    import pandas  # noqa: F401
except ImportError as missing:
    print(f"SKIPPED: {missing.name} is not installed (analysis/requirements.txt)")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = HERE.parent
RUNS = HERE / "runs.csv"
RESULT = HERE / "result.json"
PNG = b"\x89PNG\r\n\x1a\n"

sys.path.insert(0, str(SCRIPTS))
import figure  # noqa: E402


class Figures(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = pathlib.Path(self.folder.name) / "figure.png"

    def tearDown(self):
        self.folder.cleanup()

    def script(self, name, *words):
        return subprocess.run([sys.executable, str(SCRIPTS / name), *map(str, words)],
                              capture_output=True, text=True, check=False)

    def draws(self, name, *words):
        done = self.script(name, *words, "--out", self.out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        picture = self.out.read_bytes()
        self.assertTrue(picture.startswith(PNG))
        width, height = (int.from_bytes(picture[at:at + 4], "big") for at in (16, 20))
        self.assertGreater(width, 600)
        self.assertGreater(height, 300)

    def refuses(self, name, message, *words):
        done = self.script(name, *words, "--out", self.out)
        self.assertEqual(done.returncode, 2)
        self.assertIn(message, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertFalse(self.out.exists())

    def test_bandwidth(self):
        self.draws("ttst_tbt_vs_bandwidth.py", RUNS)
        self.draws("ttst_tbt_vs_bandwidth.py", RUNS, "--where", "workload.prompts.0.tokens=10000")

    def test_prompt(self):
        self.draws("vs_prompt.py", RUNS)

    def test_ctl(self):
        self.draws("ctl.py", RESULT)
        self.draws("ctl.py", RESULT, "--only", "full", "--only", "smartgen")

    def test_causes(self):
        self.draws("ttst_causes.py", RESULT)

    def test_calibration(self):
        folder = pathlib.Path(self.folder.name)
        points, ceilings = folder / "calibration.csv", folder / "ceilings.csv"
        header = "kernel,variant,shape,part,measured_s,p25_s,p75_s,fitted_s,flops,bytes\n"
        rows = "".join(f"{kernel},lib,n={n},{part},{n * 1e-6},{n * 9e-7},{n * 1.1e-6},{fitted},{flops},{n * 1000}\n"
                       for kernel, flops in (("gemm", 5000), ("copy", ""))
                       for n, part, fitted in ((1, "fitted", 1e-6), (4, "held out", 5e-6), (9, "extrapolated", 9e-6),
                                               (2, "another way to copy", "")))
        points.write_text(header + rows)
        ceilings.write_text("machine,read_bytes_per_s,copy_bytes_per_s,gemm_flop_per_s\nbox,1e9,2e9,1e11\n")
        done = self.script("calibration.py", points, "--ceilings", ceilings, "--out", folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for name in ("measured_fitted.png", "rooflines.png"):
            self.assertTrue((folder / name).read_bytes().startswith(PNG))
        self.refuses("calibration.py", "no column kernel", ceilings, "--ceilings", ceilings)
        points.write_text(header)
        self.refuses("calibration.py", "no samples", points, "--ceilings", ceilings)

    def test_refuses(self):
        self.refuses("ttst_causes.py", "not a kvlane.result/1", HERE / "not_a_result.json")
        self.refuses("ctl.py", "no strategy", RESULT, "--only", "smartgem")
        self.refuses("vs_prompt.py", "no run is left", RUNS, "--where",
                     "instances.decode.nic.rate=1 Gbps")
        self.refuses("vs_prompt.py", "no column", RUNS, "--where", "nic=1 Gbps")
        self.refuses("ttst_tbt_vs_bandwidth.py", "not the runs.csv", HERE / "not_runs.csv")

    def test_rates(self):
        self.assertEqual(figure.gbps("25 Gbps"), 25)
        self.assertEqual(figure.gbps("800 Mbps"), 0.8)
        self.assertEqual(figure.gbps("2 GB/s"), 16)
        self.assertIsNone(figure.gbps("10000"))
        self.assertIsNone(figure.gbps("64 GiB"))

    def test_a_strategy_keeps_its_colour(self):
        few = figure.styles(["full", "smartgen"])
        many = figure.styles(["other", "ideal", "full", "hack", "smartgen", "more"])
        self.assertEqual(few["smartgen"][0], many["smartgen"][0])
        self.assertEqual(len({colour for colour, _ in many.values()}), len(many))


if __name__ == "__main__":
    unittest.main()
