#!/usr/bin/env python3
"""Runs the commands of a Markdown file and puts what they print in place of what stands there.

    analysis/readme_outputs.py README.md            rewrites the file
    analysis/readme_outputs.py --check README.md    exit 1 where an output differs

A command is the first line of a fence marked `console`, after `$ `; the rest of the fence is its
output, errors included. Commands run at the root of the repository; where one cannot start, nothing
is written. KVLANE names a binary to use in place of ./kvlane.
"""

import argparse
import difflib
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```console\n\$ (?P<command>.*)\n(?P<output>(?:.*\n)*?)```$", re.MULTILINE)


def run(command):
    actual = command.replace("./kvlane", os.environ.get("KVLANE", "./kvlane"))
    done = subprocess.run(["bash", "-o", "pipefail", "-c", actual], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode in (126, 127):  # the program is not there, or just being built
        sys.exit(f"readme_outputs.py: `{actual}` did not start: {done.stdout.strip()}")
    return "".join(line.rstrip() + "\n" for line in done.stdout.splitlines())


def fence(match):
    return f"```console\n$ {match['command']}\n{run(match['command'])}```"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, show differences")
    parser.add_argument("file", type=pathlib.Path)
    arguments = parser.parse_args()
    old = arguments.file.read_text(encoding="utf-8")
    new = FENCE.sub(fence, old)
    if not arguments.check:
        arguments.file.write_text(new, encoding="utf-8")
        return 0
    sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True),
                                               str(arguments.file), "what the commands print"))
    return int(old != new)


if __name__ == "__main__":
    sys.exit(main())
