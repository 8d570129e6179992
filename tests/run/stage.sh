#!/usr/bin/env bash
# stage.sh ROOT SCRIPT ARGUMENTS: runs one stage of the suite under ctest.
set -euo pipefail
export KVLANE_ROOT=$1
script=$2
shift 2
cd "$KVLANE_ROOT"
source tests/run/lib.sh
source "tests/run/$script"
