#!/usr/bin/env bash
# rdma_roles.sh KVLANE: a live run over RDMA, each role a process on its own Soft-RoCE device, in the guest. This script
# packs the program with its presets; rdma_roles_guest.sh is what runs there.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# The program looks for its presets three folders above its own.
mkdir -p "$scratch/build/guest/bin"
cp "$1" "$scratch/build/guest/bin/kvlane"
cp -r "$root/scenarios" "$scratch"
install -m 755 "$here/rdma_roles_guest.sh" "$scratch/run"
KVLANE_ROOT=$root "$root/tests/support/rdma_guest/run.sh" "$scratch"
