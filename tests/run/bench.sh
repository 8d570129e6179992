#!/usr/bin/env bash
# ./kvlane bench [kernels|transport]: builds the benchmarks with their rivals and runs a set.
set -euo pipefail
source "$KVLANE_ROOT/tests/run/lib.sh"

set=sim
case ${1-} in
  "" | -*) ;;
  kernels)
    set=kernels
    shift
    ;;
  transport)
    shift
    need_packages bench-transport "${KVLANE_BUILD_PACKAGES[@]}" iperf3 ucx-utils
    build_tree release kvlane
    exec python3 "$KVLANE_ROOT/tests/bench/transport.py" "$KVLANE_ROOT/build/release/bin/kvlane" "$@"
    ;;
  *) die "unknown benchmark set '$1'; expected nothing, kernels or transport" ;;
esac
case ${1-} in
  -h | --help)
    echo "usage: ./kvlane bench [kernels|transport] [OPTIONS OF THE BENCHMARK]"
    echo "Prints one line a result: NAME OURS RIVAL RATIO (rates; a ratio above 1 is better)."
    echo "KVLANE_TORCH_PYTHON: a Python that has PyTorch, for decode_vs_torch (default: python3)."
    exit 0
    ;;
esac
need_packages bench "${KVLANE_BUILD_PACKAGES[@]}" "${KVLANE_BENCH_PACKAGES[@]}"
build_tree bench "kvlane_bench_$set"
program=$(find "$KVLANE_ROOT/build/bench" -type f -name "kvlane_bench_$set" -perm -u+x | head -n 1)
cd "$KVLANE_ROOT"
if [[ $set == sim ]]; then exec "$program" "$@"; fi
"$program" "$@"
python=${KVLANE_TORCH_PYTHON:-python3}
if "$python" -c 'import torch' 2>/dev/null; then
  exec "$python" tests/bench/decode_vs_torch.py "$program"
fi
say "decode_vs_torch is left out: $python has no PyTorch (pip install torch, then KVLANE_TORCH_PYTHON=that python)"
echo "decode_vs_torch - - -"
