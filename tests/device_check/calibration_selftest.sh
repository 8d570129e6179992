#!/usr/bin/env bash
# calibration_selftest.sh ROOT CALIBRATION KVLANE: device_check.sh's calibration, built for the host executor, over a few
# small shapes of every kernel; `calibrate fit` makes a hardware file of what it leaves.
set -u
root=$1 calibration=$2 kvlane=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

fail() {
  echo "$*"
  exit 1
}

# Eight a kernel: four for each half of a fit, about; and two of the other ways to gather.
awk -F ' [|] ' '/^#/ { next } { split($1, word, " ") } count[word[1]]++ < 8 || ($2 != "" && ways[word[1] $2]++ < 2)' "$root/calibrate/measure/gpu_shapes.txt" >shapes.txt
"$calibration" --quick --wait 0 --seconds 200 --commit 0123abc --shapes shapes.txt --samples samples.jsonl \
  --summary summary.txt >out.txt 2>&1 || fail "exit status $?: $(cat out.txt)"
for kernel in $(cut -d ' ' -f 1 shapes.txt | sort -u) read copy; do
  grep -q "\"kernel\": \"$kernel\".*\"commit\": \"0123abc\".*a quick run" samples.jsonl || fail "no sample of $kernel"
  [[ $kernel == copy ]] || grep -q "^$kernel" summary.txt || fail "$kernel is not in the summary: $(cat summary.txt)"
done
# The host's kernel is not in this program.
grep -q '^kv_gather .*packed on the host' shapes.txt || fail "no shape to leave out"
grep -q 'packed on the host' samples.jsonl && fail "packed on the host, yet not by the host's kernel"
grep -q 'a batch of copies: ' samples.jsonl || fail "no batch of copies"
grep -q '^Gathers that the host packs are left out' summary.txt || fail "left out, unsaid: $(cat summary.txt)"
"$kvlane" calibrate fit samples.jsonl -o fitted.yaml >fit.txt 2>&1 || fail "fit: exit status $?: $(cat fit.txt)"
grep -qE 'host_gather_bandwidth:.*assumed' fitted.yaml || fail "fitted.yaml: $(grep host_gather fitted.yaml)"
# No more of the file: the executor is slower than any GPU that one may be about.
grep -q '^name: "host-executor"' fitted.yaml || fail "fitted.yaml: $(head -n 20 fitted.yaml)"

# What it cannot do it says, and leaves nothing.
refused() {
  local wanted=$1
  shift
  rm -f samples.jsonl
  "$calibration" "$@" >out.txt 2>&1
  local status=$?
  [[ $status == 2 ]] || fail "$*: exit status $status; expected 2"
  grep -qF -- "$wanted" out.txt || fail "$*: $(cat out.txt); expected '$wanted'"
  [[ ! -e samples.jsonl ]] || fail "$*: samples all the same"
}
files=(--samples samples.jsonl --summary summary.txt)
refused "--shapes is missing" "${files[@]}"
refused "none.txt: cannot be read" --shapes none.txt "${files[@]}"
echo 'gemm bf16 1 2' >short.txt
refused "short.txt:1: 2 sizes; expected 3 of gemm" --shapes short.txt "${files[@]}"
refused "cuda:7" --shapes shapes.txt --device 7 "${files[@]}"
for device in 0.9 1e0 -1 0x1 ' 0' 4294967296 ''; do
  refused "--device $device; expected a GPU's number" --shapes shapes.txt --device "$device" "${files[@]}"
  [[ $(wc -l <out.txt) == 1 ]] || fail "--device $device: more than one line: $(cat out.txt)"
done
refused "--seconds soon; expected a number" --shapes shapes.txt --seconds soon "${files[@]}"
# No time at all: no samples, and that is no success.
"$calibration" --seconds 0 --wait 0 --shapes shapes.txt "${files[@]}" >out.txt 2>&1 && fail "no time, yet success"
exit 0
