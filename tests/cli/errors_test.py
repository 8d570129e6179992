"""What is refused: one line that names what was found and what was expected, and no trace of a result."""

import pathlib
import unittest

from support import Case, LOOPBACK, ROOT, TINY


class BrokenFiles(Case):
    def test_every_broken_file(self):
        files = sorted(pathlib.Path(ROOT, "tests/unit/broken").glob("*.yaml"))
        self.assertGreaterEqual(len(files), 10)
        for file in files:
            path = file.relative_to(ROOT)
            out = self.folder / "out"
            text = self.refused("run", path, "--out", out, "--trace", self.folder / "trace.json", "--requests",
                                self.folder / "requests.csv")
            self.assertRegex(text, rf"^kvlane: {path}:\d+:\d+: .+; expected .+\n$")


class Usage(Case):
    def test_words(self):
        for words, says in (
                (("nonsense",), "nonsense"),
                (("--nonsense",), "--nonsense"),
                (("run",), "0 files"),
                (("run", TINY, LOOPBACK), "2 files"),
                (("run", "none.yaml"), "none.yaml"),
                (("run", "scenarios"), "scenarios"),
                (("run", LOOPBACK, "--bogus"), "--bogus"),
                (("run", LOOPBACK, "--form", "json"), "--form"),  # no abbreviations
                (("run", LOOPBACK, "--format"), "--format"),
                (("run", LOOPBACK, "--format", "xml"), "'xml'"),
                (("run", LOOPBACK, "--only", "nothing"), ("nothing", "smartgen")),
                (("run", LOOPBACK, "--set", "bad"), "no `=`"),
                (("run", LOOPBACK, "--set", "=3"), "--set"),
                (("run", LOOPBACK, "--set", "workload.output=3"), "output"),
                (("run", LOOPBACK, "--set", "workload.output_tokens=many"), "many"),
                (("run", LOOPBACK, "--set", "instances.nobody.gpu=l4"), "nobody"),
                (("run", LOOPBACK, "--set", "instances.decode.nic.rate=10"), "no unit"),
                (("run", "scenarios/studies/batch.yaml"), "study"),
                (("compare",), "0 files"),
                (("compare", TINY, TINY), "tiny.yaml"),
                (("sweep",), "0 files"),
                (("sweep", "scenarios/smoke/study.yaml"), "--out"),
                (("paper", "file"), "no file"),
                (("paper", "-j", "x"), "x"),
                (("paper", "-j", "-1"), "-1"),
                (("paper", "--format", "csv"), "csv"),
                (("validate",), "no file"),
                (("list",), "expected one of"),
                (("list", "nothing"), "nothing"),
                (("show",), "two words"),
                (("show", "model"), "two words"),
                (("show", "nothing", "l20"), "nothing"),
                (("show", "model", "nothing"), "nothing"),
                (("show", "model", "llama-3.1-8b", "--tokens", "0"), "--tokens"),
                (("show", "model", "llama-3.1-8b", "--tokens", "many"), "many"),
                (("show", "hardware", "l20", "--tokens", "5"), "--tokens"),
                (("show", "hardware", "none.yaml"), "none.yaml"),
                (("schema", "nothing"), "nothing"),
                (("schema", "gpu", "nic"), "at most one"),
        ):
            with self.subTest(words=words):
                self.refused(*words, says=says)

    def test_output_that_cannot_be(self):
        words = ("run", LOOPBACK, "--only", "full", "--no-verdict")
        file = self.folder / "file"
        file.write_text("mine")
        self.refused(*words, "--out", file, says="file")
        self.refused(*words, "--requests", self.folder / "none" / "r.csv", says="none")
        self.refused(*words, "--trace", self.folder, says=str(self.folder))
        self.assertEqual(file.read_text(), "mine")

    def test_sweep_leaves_nothing(self):
        out = self.folder / "out"
        study = "scenarios/smoke/study.yaml"
        for words, says in (((TINY,), "tiny.yaml"), ((study, "--shard", "3/2"), "3/2"), ((study, "-j", "-2"), "-2"),
                            ((study, "--format", "xml"), "xml"), ((study, "--set", "workload.output=3"), "output")):
            with self.subTest(words=words):
                self.refused("sweep", *words, "--out", out, says=says)


if __name__ == "__main__":
    unittest.main()
