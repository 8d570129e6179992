"""What is refused: one line that names what was found and what was expected, and no trace of a result."""

import os
import pathlib
import signal
import subprocess
import time
import unittest

from support import Case, LOOPBACK, ROOT, TINY

STUDY = "scenarios/smoke/study.yaml"


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
                (("run", LOOPBACK, "--live", "--compute", "modeled", "--only", "full,hack"), ("'full,hack'", "smartgen")),
                (("run", LOOPBACK, "--role", ""), "--role ''"),
                (("run", LOOPBACK, "--verify"), "--verify without --live"),
                (("run", LOOPBACK, "--live", "--timeout", "430h"), "at most 24 h"),
                (("run", LOOPBACK, "--live", "--secret-file", "/dev/zero"), "not a plain file"),
                (("run", LOOPBACK, "--live", "--rdma-device", ""), "--rdma-device ''"),
                (("run", LOOPBACK, "--role", "decode", "--peer", "h:1", "--peer", "h:1"), "h:1 twice"),
                (("compare", "--sim-vs-live", LOOPBACK, "--shape", ""), "--shape ''"),
                (("compare", "--sim-vs-live", "none.yaml", "--compute", "modeled"), "none.yaml"),
                (("compare", "--sim-vs-live", LOOPBACK, "--transport", "modeled"), "moves bytes"),
                (("compare", "--sim-vs-live", LOOPBACK, "--transport", "shm", "--shape", "1 Gbps"), "expected tcp"),
                (("doctor", "--memory", "-1GiB"), "0 or more"),
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

    def test_usage_says_what_was_expected(self):
        for words in (("run", LOOPBACK, "--bogus"), ("run", LOOPBACK, "--format"), ("paper", "-j", "x"), ("show",),
                      ("show", "hardware", "l20", "--tokens", "5"), ("schema", "gpu", "nic"),
                      ("run", LOOPBACK, "--out", ""), ("run", LOOPBACK, "--trace", ""),
                      ("run", LOOPBACK, "--requests", ""), ("sweep", STUDY, "--out", "")):
            with self.subTest(words=words):
                self.refused(*words, says="; expected ")

    def test_outputs_that_are_no_files_of_their_own(self):
        words = ("run", LOOPBACK, "--only", "full", "--no-verdict", "--force")
        pipe, lost, out = self.folder / "pipe", self.folder / "lost", self.folder / "out"
        os.mkfifo(pipe)
        lost.symlink_to("nowhere")
        scenario = self.folder / "s.yaml"
        scenario.write_text(pathlib.Path(ROOT, LOOPBACK).read_text())
        for path in (pipe, lost):
            self.refused(*words, "--trace", path, says=str(path))
            self.refused(*words, "--requests", path, says=str(path))
        self.refused("run", scenario, *words[2:], "--trace", scenario, says="input")
        self.refused(*words, "--trace", self.folder / "a", "--requests", self.folder / "a", says="two outputs")
        self.refused(*words, "--out", out, "--requests", out / "result.json", says="two outputs")
        self.refused("run", "none.yaml", "--out", out, says="none.yaml")
        self.refused(*words[:2], "--only", "nobody", "--out", out / "deep" / "er", says="nobody")

    def test_inputs_that_are_no_files(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        for path in (pipe, "/dev/zero", "/proc/self/mem", self.folder):
            for command in (("run", path), ("compare", path, TINY), ("validate", path), ("sweep", path, "--out", "o"),
                            ("show", "model", path)):
                with self.subTest(command=command):
                    self.refused(*command, says=str(path))

    def test_messages_are_one_line_of_text(self):
        for text in ('"a\\0b"', '"a\\e[2J"', '"a\\nb"', "x" * 5000):
            error = self.refused("run", LOOPBACK, "--set", f"workload={text}")
            self.assertTrue(all(c.isprintable() for c in error[:-1]), repr(error))
            self.assertLess(len(error), 600)
            self.assertIn("; expected ", error)
        self.assertTrue(self.refused("run", "a\nb\x1b.yaml")[:-1].isprintable())
        self.refused("run", LOOPBACK, "--set", 'name="a\\nb"', says="several lines")

    def test_stderr_that_cannot_be_written(self):
        for command, status in (("run none.yaml", 2), ("", 2), ("--bogus", 2), ("validate none.yaml", 2)):
            for where in ("2>&-", "2>/dev/full"):
                done = subprocess.run(f"$KVLANE {command} {where}", shell=True, cwd=ROOT, check=False,
                                      stdout=subprocess.PIPE)
                self.assertEqual((done.returncode, done.stdout), (status, b""), command + where)

    def test_sweep_deletes_nothing_of_others(self):
        out = self.folder / "out"
        out.mkdir()
        os.mkfifo(out / "journal-pipe.jsonl")
        (out / "journal-notes.jsonl").write_text("mine")
        (out / "runs.csv").write_text("mine")
        self.refused("sweep", STUDY, "--out", out, says="runs.csv")
        (out / "runs.csv").unlink()
        self.kvlane("sweep", STUDY, "--out", out, "--force")
        self.assertEqual((out / "journal-notes.jsonl").read_text(), "mine")
        self.assertTrue((out / "journal-pipe.jsonl").is_fifo())
        self.refused("sweep", STUDY, "--out", out, "--shard", "1/99999999999", says="I/N")
        self.refused("sweep", STUDY, "--out", out, "--shard", "4294967297/4294967298", says="I/N")

    def test_signals_leave_nothing(self):
        out, trace = self.folder / "out", self.folder / "trace.json"
        for number in (signal.SIGINT, signal.SIGTERM):
            run = subprocess.Popen([os.environ["KVLANE"], "run", "scenarios/paper/l20-batch6.yaml", "--out", str(out),
                                    "--trace", str(trace), "--set", "seeds=1000"], cwd=ROOT, stdout=subprocess.DEVNULL,
                                   # A shell in the background has its children ignore SIGINT.
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
            while not list(self.folder.glob("*.part")) and run.poll() is None:
                time.sleep(0.01)
            run.send_signal(number)
            self.assertEqual(run.wait(60), 128 + number)
            self.assertEqual(list(self.folder.iterdir()), [])

    def test_sweep_leaves_nothing(self):
        out = self.folder / "out"
        for words, says in (((TINY,), "tiny.yaml"), ((STUDY, "--shard", "3/2"), "3/2"), ((STUDY, "-j", "-2"), "-2"),
                            ((STUDY, "--format", "xml"), "xml"), ((STUDY, "--set", "workload.output=3"), "output")):
            with self.subTest(words=words):
                self.refused("sweep", *words, "--out", out, says=says)


if __name__ == "__main__":
    unittest.main()
