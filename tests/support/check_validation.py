#!/usr/bin/env python3
"""scenarios/hardware/VALIDATION.md shows what `calibrate validate` prints now, where the tables are."""

import os
import pathlib
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent.parent
tables = pathlib.Path(os.environ["KVLANE_TABLES"])
if not tables.is_dir():
    print(f"skipped: no published tables in {tables.name} beside the checkout")
    sys.exit(77)
check = [sys.executable, str(root / "analysis/readme_outputs.py"), "--check", "scenarios/hardware/VALIDATION.md"]
sys.exit(subprocess.run(check, cwd=root, check=False).returncode)
