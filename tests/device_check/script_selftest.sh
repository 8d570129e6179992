#!/usr/bin/env bash
# script_selftest.sh ROOT: device_check.sh with tools that only pretend: what it refuses, and what it makes of tests that
# fail and of programs that are missing. Nothing is compiled.
# shellcheck disable=SC2016  # bodies of tools are not expanded here
set -u
root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

complain() {
  echo "$1: $2"
  echo "$output"
  failed=1
}

# A copy with what the script itself reads, so that its build folder is ours.
mkdir -p "$work"/tree/{sim/cli,tests/device_check,calibrate/measure}
cp "$root/device_check.sh" "$work/tree"
cp "$root/sim/cli/version.cmake" "$work/tree/sim/cli"

# tool NAME BODY: a program in $tools.
tool() {
  printf '#!/bin/bash\n%s\n' "$2" >"$tools/$1"
  chmod +x "$tools/$1"
}
# The system's own tools, without any that the script looks for.
fresh_tools() {
  tools=$work/tools.$RANDOM$RANDOM
  mkdir "$tools"
  local name
  for name in awk basename bash cat chmod cp cut date dirname git grep head kill ls mkdir mv nproc printf rm sed sleep sort tail tee tr uname; do
    ln -s "$(type -P "$name")" "$tools/$name"
  done
}
good_tools() {
  fresh_tools
  tool nvidia-smi 'echo "NVIDIA Pretence, 8.9, 46068 MiB, 550.54"'
  tool nvcc '[[ $1 == --list-gpu-arch ]] && printf "compute_%s\n" 75 80 89 90 || echo "Cuda compilation tools, release 12.4, V12.4.131"'
  tool g++ '[[ $1 == --version ]] && echo "g++ (Debian) 12.2.0" || echo 12.2.0'
  tool make true
  # Configuring names the tests, building makes the programs.
  tool cmake '
case $1 in
  --version) echo "cmake version 3.25.1" && exit ;;
  -S) printf "attention\nhack\ntopk\n" >"$4/tests.txt" && echo "configured $*" && exit ;;
esac
build=$2
[[ -z ${FAKE_LONG_BUILD-} ]] || { echo $$ >"$build/process"; sleep 30; }
[[ -z ${FAKE_NOTHING_BUILT-} ]] || exit 2
program() { printf "#!/bin/bash\n%s\n" "$2" >"$build/$1" && chmod +x "$build/$1"; }
program test_cuda_attention_gpu "
[[ -z \${FAKE_LONG_TEST-} ]] || { echo \$\$ >$build/process; sleep 30; }
echo attention is fine; exit ${FAKE_ATTENTION:-0}"
program test_cuda_topk_gpu "exit 0"
[[ -n ${FAKE_NO_HACK-} ]] || program test_cuda_hack_gpu "exit 0"
program device_calibration "
trap \"ended=1\" TERM
echo \$\$ >$build/process
[[ -z \${FAKE_LONG-} ]] || for ((i = 0; i < 100 && ! ended; ++i)); do sleep 0.2; done
while [[ \$# -gt 0 ]]; do case \$1 in --samples) samples=\$2 ;; --summary) summary=\$2 ;; esac; shift 2; done
echo a sample >\"\$samples\"; echo the rates >\"\$summary\"; exit ${FAKE_CALIBRATION:-0}"
exit ${FAKE_BUILD:-0}'
}

# check NAME STATUS WORDS...: runs the script with $arguments; every one of the words is in its output.
arguments=()
check() {
  local name=$1 wanted=$2 status words
  output=$(cd "$work" && env -u CUDA_VISIBLE_DEVICES -u CUDA_PATH -u CXX PATH="$tools" \
    "$tools/bash" tree/device_check.sh "${arguments[@]}" 2>&1)
  status=$?
  [[ $status == "$wanted" ]] || complain "$name" "exit status $status; expected $wanted"
  for words in "${@:3}"; do
    [[ $output == *"$words"* ]] || complain "$name" "no '$words'"
  done
  # A refusal is one line.
  [[ $wanted != 2 || $(wc -l <<<"$output") == 1 ]] || complain "$name" "more than one line"
}
summary_says() {
  local words
  output=$(cat "$work/device_check_results/summary.txt" 2>&1)
  for words in "${@:2}"; do
    [[ $output == *"$words"* ]] || complain "$1" "no '$words' in summary.txt"
  done
}

fresh_tools
check "no driver" 2 "no GPU visible: there is no nvidia-smi"
tool nvidia-smi 'echo "No devices were found"; exit 6'
check "no GPU" 2 "no GPU visible: nvidia-smi -i 0 says: No devices were found"
tool nvidia-smi 'echo "Tesla P100, 6.0, 16384 MiB, 550.54"'
check "an old GPU" 2 "compute capability 6.0; the kernels need 7.5 or newer"
tool nvidia-smi 'echo "NVIDIA L4, 8.9, 23034 MiB, 550.54"'
[[ -x /usr/local/cuda/bin/nvcc ]] || check "no nvcc" 2 "no nvcc in PATH"
tool nvcc 'echo "Cuda compilation tools, release 11.8, V11.8.89"'
check "an old nvcc" 2 "of CUDA 11.8.89; 12.2 or newer is needed"
tool nvcc 'echo "Cuda compilation tools, release 12.2, V12.2.140"'
check "no cmake" 2 "no cmake; 3.22 or newer"
tool cmake 'echo "cmake version 3.9.6"'
check "an old cmake" 2 "cmake 3.9.6; 3.22 or newer"
tool cmake 'echo "cmake version 3.22.1"'
check "no compiler" 2 "no g++; g++ 11 or newer"
tool g++ '[[ $1 == --version ]] && echo "g++ (Ubuntu) 9.4.0" || echo 9.4.0'
check "an old compiler" 2 "is version 9.4.0; g++ 11 or newer"
tool g++ '[[ $1 == --version ]] && echo "g++ (Ubuntu) 11.4.0" || echo 11.4.0'
check "no make" 2 "no make and no ninja"
arguments=(--out)
check "an option without a value" 2 "--out needs a value"
arguments=(--fast)
check "an unknown option" 2 "unknown option '--fast'"
arguments=(--arch 8.9)
check "an architecture with a point" 2 "--arch 8.9; expected"
arguments=(--help)
check "help" 0 "samples.jsonl  for"

arguments=()
good_tools
check "all is well" 0 "test topk: passed" "building for 89-real"
summary_says "all is well" "NVIDIA Pretence" "hack                 passed" "measurements: complete" "the rates" \
  "calibrate fit samples.jsonl"
for file in samples.jsonl summary.txt build.log tests.log; do
  [[ -s $work/device_check_results/$file ]] || complain "all is well" "no $file"
done
ls "$work"/device_check_results/*.part >/dev/null 2>&1 && complain "all is well" "parts are left"
check "samples are not lost" 2 "samples.jsonl exists; --force replaces it"
arguments=(--force)
export FAKE_ATTENTION=1
check "a test fails" 1 "test attention: FAILED: exit status 1"
summary_says "a test fails" "attention            FAILED" "measurements: complete"
[[ -s $work/device_check_results/samples.jsonl ]] || complain "a test fails" "no samples"
export FAKE_ATTENTION=0 FAKE_CALIBRATION=2
check "a fault while measuring" 1 "measurements: device_calibration ended with status 2"
[[ -s $work/device_check_results/samples.jsonl ]] || complain "a fault while measuring" "no samples"
export FAKE_CALIBRATION=0 FAKE_NO_HACK=1 FAKE_BUILD=2
check "a test that is not built" 1 "test hack: NOT BUILT" "build: not everything was built"
summary_says "a test that is not built" "build: not everything was built" "measurements: complete"
unset FAKE_NO_HACK FAKE_BUILD

# What an earlier build left is no part of this one, and what it measured is kept.
check "all is well again" 0 "measurements: complete"
echo "earlier samples" >"$work/device_check_results/samples.jsonl"
export FAKE_NOTHING_BUILT=1
check "a build that fails after one that did not" 1 "test attention: NOT BUILT" "test topk: NOT BUILT" \
  "measurements: the program was not built"
summary_says "a build that fails after one that did not" "no new samples: samples.jsonl is of an earlier run"
[[ $(cat "$work/device_check_results/samples.jsonl") == "earlier samples" ]] ||
  complain "a build that fails after one that did not" "the earlier samples are gone"
unset FAKE_NOTHING_BUILT
check "a build that does not fail after one that did" 0 "measurements: complete" "calibrate fit samples.jsonl"
[[ $(cat "$work/device_check_results/samples.jsonl") == "a sample" ]] ||
  complain "a build that does not fail after one that did" "the samples are not replaced"

# interrupt NAME VARIABLE BEGUN WORDS...: Ctrl-C, typed into a terminal half a second after the script has said BEGUN. With
# VARIABLE set the phase lasts; its program has ended when the script has, and each of the words is in the summary.
in_terminal() {
  if command -v script >/dev/null; then
    script -qec "$*" /dev/null
  else
    python3 -c 'import os, pty, sys; sys.exit(os.WEXITSTATUS(pty.spawn(["sh", "-c", sys.argv[1]])))' "$*"
  fi
}
runs() { kill -0 "$1" 2>/dev/null && ! grep -qs '^State:.*Z' "/proc/$1/status"; }
interrupt() {
  local name=$1 variable=$2 begun=$3 log=$work/interrupted.txt status process=$work/tree/build/device_check/process
  rm -rf "$work/device_check_results" "$process"
  : >"$log"
  mkfifo "$work/keys"
  (cd "$work" && in_terminal "exec env -u CUDA_VISIBLE_DEVICES -u CUDA_PATH -u CXX $variable=1 PATH=$tools $tools/bash tree/device_check.sh --force" <keys >"$log" 2>&1) &
  local terminal=$!
  exec 3>"$work/keys"
  for ((i = 0; i < 100; ++i)); do
    grep -qs "$begun" "$log" && [[ -s $process ]] && break
    sleep 0.1
  done
  sleep 0.5
  local pressed=$SECONDS
  printf '\003' >&3
  wait "$terminal"
  status=$?
  exec 3>&-
  rm "$work/keys"
  output=$(tr -d '\r' <"$log")
  [[ $status == 1 ]] || complain "$name" "exit status $status; expected 1"
  ((SECONDS - pressed < 15)) || complain "$name" "went on for $((SECONDS - pressed)) s"
  if [[ ! -s $process ]]; then
    complain "$name" "never began"
  elif runs "$(cat "$process")"; then
    complain "$name" "its program goes on"
    kill "$(cat "$process")"
  fi
  summary_says "$name" "${@:4}"
}
interrupt "Ctrl-C while it builds" FAKE_LONG_BUILD building "build: interrupted after" "attention            not run: interrupted" \
  "measurements: interrupted before they began" "there are no samples"
interrupt "Ctrl-C while it tests" FAKE_LONG_TEST "built in" "build: complete" "attention            interrupted" \
  "topk                 not run: interrupted" "measurements: interrupted before they began"
interrupt "Ctrl-C while it measures" FAKE_LONG measuring "topk                 passed" \
  "measurements: interrupted: what was measured by then" "the rates" "calibrate fit samples.jsonl"
[[ -s $work/device_check_results/samples.jsonl ]] || complain "Ctrl-C while it measures" "no samples"

tool nvidia-smi 'echo "NVIDIA of tomorrow, 12.0, 98304 MiB, 580.1"'
check "a GPU newer than nvcc" 0 "building for 90-virtual"
tool nvidia-smi 'echo "Tesla T4, 7.5, 15360 MiB, 550.54"'
check "a GPU without sm_80" 0 "test hack: not run: needs compute capability 8.0" "test topk: passed"
exit "$failed"
