#!/usr/bin/env bash
# build_selftest.sh ROOT NVCC COMPILER [LAUNCHER]: the device check's project, configured in a copy of the tree without
# its .git, compiles and includes no header but the standard library's, CUDA's and our own. Of the kernels one is
# compiled, the quickest; all of them are linked on the host executor and in the main project.
set -u
root=$1 nvcc=$2 compiler=$3 launcher=${4-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree build=$work/build

fail() {
  echo "$*"
  exit 1
}

mkdir "$tree"
tar -C "$root" --exclude=./.git --exclude=./build --exclude=./out -cf - . | tar -C "$tree" -xf - || fail "no copy"
# The same objects as last time: what a cache sees does not name the copy.
export CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1
options=(-DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_COMPILER="$compiler" -DKVLANE_NVCC="$nvcc" -DKVLANE_CUDA_ARCHITECTURES=80-real)
[[ -z $launcher ]] || options+=(-DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" -DCMAKE_CUDA_COMPILER_LAUNCHER="$launcher")
cmake -S "$tree/tests/device_check" -B "$build" -G Ninja "${options[@]}" >"$work/log" 2>&1 || fail "configuring: $(cat "$work/log")"
grep -qx topk "$build/tests.txt" || fail "tests.txt names no topk: $(cat "$build/tests.txt")"

mapfile -t objects < <(ninja -C "$build" -t targets all | sed -n 's/: .*//p' |
  grep -E '^CMakeFiles/(device_calibration|test_cuda_topk_gpu)\.dir/.*\.o$|/topk/cuda\.cu\.o$')
((${#objects[@]} > 30)) || fail "only ${#objects[@]} objects"
ninja -C "$build" -j 2 "${objects[@]}" >"$work/log" 2>&1 || fail "$(tail -n 40 "$work/log")"

# Every header that was read, from ninja's log of dependencies.
toolkit=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
ninja -C "$build" -t deps | sed -n 's/^    //p' | sort -u | while read -r file; do
  [[ $file == /* ]] || file=$build/$file
  readlink -f "$file"
done | sort -u >"$work/headers"
grep -q "^$tree/tests/device_check/doctest/doctest.h$" "$work/headers" || fail "our own doctest.h was not included"
grep -q "cuda_runtime" "$work/headers" || fail "no header of CUDA's: $(wc -l <"$work/headers") headers"
foreign=$(grep -vE "^($tree|$toolkit|/usr/lib/gcc|/usr/include/(c\+\+|x86_64-linux-gnu|linux|asm-generic))/|^/usr/include/[a-z0-9_-]+\.h$" "$work/headers")
foreign+=$(grep -E '/(cblas|openblas|zlib|zconf)[^/]*\.h$|/openblas' "$work/headers")
[[ -z $foreign ]] || fail "headers that a machine with CUDA and a compiler may lack: $foreign"
echo "${#objects[@]} objects, $(wc -l <"$work/headers") headers"
