"""What the tests of the command line share. The program is $KVLANE, the working directory the repository."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = "scenarios/smoke/tiny.yaml"
LOOPBACK = "scenarios/smoke/loopback.yaml"


class Case(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def kvlane(self, *words, status=0, cwd=ROOT):
        done = subprocess.run([os.environ["KVLANE"], *map(str, words)], capture_output=True, cwd=cwd, check=False,
                              stdin=subprocess.DEVNULL)
        done.out, done.err = done.stdout.decode(), done.stderr.decode()
        self.assertEqual(done.returncode, status, f"{words}: {done.out[:500]} {done.err[:500]}")
        if status == 0:
            self.assertEqual(done.err, "", f"{words}: a pipe gets no progress bar and no chatter")
        return done

    def refused(self, *words, says=()):
        """Bad input or usage: status 2, one line on stderr, nothing on stdout, nothing new in the folder."""
        before = sorted(self.folder.rglob("*"))
        done = self.kvlane(*words, status=2)
        self.assertEqual(done.out, "", words)
        self.assertEqual(done.err.count("\n"), 1, f"{words}: {done.err}")
        self.assertTrue(done.err.startswith("kvlane: "), done.err)
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, done.err, words)
        self.assertEqual(sorted(self.folder.rglob("*")), before, words)
        return done.err


def with_errors(folder, scenario, nic=None, **kernels):
    """A copy of a scenario whose GPUs and NICs state these errors; the files beside it in `folder`."""
    folder = pathlib.Path(folder)
    text = (ROOT / scenario).read_text()
    for name in sorted(set(re.findall(r"(?<=gpu: )[\w-]+", text))):
        gpu = (ROOT / "scenarios/hardware" / f"{name}.yaml").read_text().split("\nkernels:")[0] + "\n"
        rows = "".join(f"  - kernel: {kernel}\n"
                       f"    error: {{value: {100 * error} %, source: assumed, from: \"a test\"}}\n"
                       for kernel, error in kernels.items())
        (folder / f"{name}.yaml").write_text(gpu + ("kernels:\n" + rows if rows else ""))
        text = text.replace(f"gpu: {name}", f"gpu: ./{name}.yaml")
    for name in sorted(set(re.findall(r"(?<=base: )[\w-]+", text))):
        file = re.sub(r"\nerror: .*", "", (ROOT / "scenarios/hardware" / f"{name}.yaml").read_text())
        if nic is not None:
            file += f"error: {{value: {100 * nic} %, source: assumed, from: \"a test\"}}\n"
        (folder / f"{name}.yaml").write_text(file)
        text = text.replace(f"base: {name}", f"base: ./{name}.yaml")
    path = folder / "with_errors.yaml"
    path.write_text(text)
    return path
