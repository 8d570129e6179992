#!/usr/bin/env bash
# ./kvlane bench [kernels|transport]: builds the benchmarks with their rivals and runs a set.
set -euo pipefail
source "$KVLANE_ROOT/tests/run/lib.sh"

case ${1-} in
  "" | -*) ;;
  kernels | transport) die "the benchmark set '$1' does not exist yet; './kvlane bench' runs the simulator's" ;;
  *) die "unknown benchmark set '$1'; expected nothing, kernels or transport" ;;
esac
case ${1-} in
  -h | --help)
    echo "usage: ./kvlane bench [kernels|transport] [OPTIONS OF THE BENCHMARK]"
    echo "Prints one line a result: NAME OURS RIVAL RATIO (rates; a ratio above 1 is better)."
    exit 0
    ;;
esac
need_packages bench "${KVLANE_BUILD_PACKAGES[@]}" "${KVLANE_BENCH_PACKAGES[@]}"
build_tree bench kvlane_bench_sim
program=$(find "$KVLANE_ROOT/build/bench" -type f -name kvlane_bench_sim -perm -u+x | head -n 1)
cd "$KVLANE_ROOT"
exec "$program" "$@"
