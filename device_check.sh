#!/usr/bin/env bash
# One command for a GPU machine that has CUDA, CMake and a compiler: builds the CUDA kernels, tests and measures them.
set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<'END'
device_check.sh [--out DIR] [--device N] [--arch CC] [--jobs J] [--force]

Builds the CUDA kernels for the GPU at hand, runs their tests, measures them, and leaves in DIR
  samples.jsonl  for `./kvlane calibrate fit`, on any machine, later
  summary.txt    machine, tests, rates of the kernels, times
  build.log, tests.log
within 8 minutes. Needs CUDA 12.2 or newer, CMake 3.22, g++ 11 and a GPU of compute capability 7.5 or newer; no network,
no other library. A build that was cut short goes on where it stopped when this is run again.

  --out DIR    default ./device_check_results; must not hold samples already
  --device N   the GPU, as nvidia-smi counts (0)
  --arch CC    compute capability to build for, 89 say, in place of the GPU's own
  --jobs J     of the build (all processors)
  --force      replace samples in DIR, once there are new ones
Ctrl-C keeps what is measured by then. Exit status: 0; 1 a test failed or something was not built or measured (what there is is kept); 2 cannot start.
END
}

refuse() {
  echo "device_check.sh: $*" >&2
  exit 2
}

# --- options
out=device_check_results device='' arch='' jobs=$(nproc 2>/dev/null || echo 2) force=no
while [[ $# -gt 0 ]]; do
  case $1 in
    --help | -h) usage && exit 0 ;;
    --force) force=yes && shift && continue ;;
    --out | --device | --arch | --jobs) [[ $# -ge 2 && -n $2 ]] || refuse "$1 needs a value; see --help" ;;
    *) refuse "unknown option '$1'; see --help" ;;
  esac
  case $1 in
    --out) out=$2 ;;
    --device) device=$2 ;;
    --arch) arch=$2 ;;
    --jobs) jobs=$2 ;;
  esac
  shift 2
done
[[ $jobs =~ ^[1-9][0-9]{0,3}$ ]] || refuse "--jobs $jobs; expected a number above 0"
[[ -z $device || $device =~ ^[0-9]{1,3}$ ]] || refuse "--device $device; expected a number"
[[ -z $arch || $arch =~ ^[0-9]{2,3}$ ]] || refuse "--arch $arch; expected a compute capability without its point, 89 say"

# --- what it needs, one message each
# at_least FOUND WANTED: versions with points.
at_least() { [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]; }

command -v nvidia-smi >/dev/null || refuse "no GPU visible: there is no nvidia-smi, which comes with NVIDIA's driver"
[[ -n $device ]] || device=${CUDA_VISIBLE_DEVICES:-0} device=${device%%,*}
gpu=$(nvidia-smi -i "$device" --query-gpu=name,compute_cap,memory.total,driver_version --format=csv,noheader 2>&1) ||
  refuse "no GPU visible: nvidia-smi -i $device says: $(head -n 1 <<<"$gpu")"
gpu=$(head -n 1 <<<"$gpu")
IFS=, read -r gpu_name capability gpu_memory driver <<<"$gpu"
capability=${capability// /}
# It is device 0 of every program that is started here.
export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=$device
[[ $capability =~ ^[0-9]+\.[0-9]+$ ]] || refuse "nvidia-smi tells no compute capability: $gpu"
at_least "$capability" 7.5 || refuse "$gpu_name has compute capability $capability; the kernels need 7.5 or newer"

nvcc=$(PATH=$PATH:${CUDA_PATH:+$CUDA_PATH/bin:}/usr/local/cuda/bin command -v nvcc) ||
  refuse "no nvcc in PATH, \$CUDA_PATH/bin or /usr/local/cuda/bin; CUDA 12.2 or newer is needed"
nvcc_version=$("$nvcc" --version 2>/dev/null | sed -nE 's/.*release [0-9.]+, V([0-9.]+).*/\1/p')
at_least "${nvcc_version:-0}" 12.2 || refuse "$nvcc is of CUDA ${nvcc_version:-unknown}; 12.2 or newer is needed"
command -v cmake >/dev/null || refuse "no cmake; 3.22 or newer is needed"
cmake_version=$(cmake --version | sed -nE 's/^cmake version ([0-9.]+).*/\1/p')
at_least "${cmake_version:-0}" 3.22 || refuse "cmake ${cmake_version:-unknown}; 3.22 or newer is needed"
compiler=$(command -v "${CXX:-g++}") || refuse "no ${CXX:-g++}; g++ 11 or newer is needed (CXX names another)"
compiler_version=$("$compiler" -dumpfullversion -dumpversion 2>/dev/null)
if "$compiler" --version | grep -qE '^g\+\+|GCC|Free Software'; then
  at_least "${compiler_version:-0}" 11 || refuse "$compiler is version ${compiler_version:-unknown}; g++ 11 or newer is needed"
fi
if command -v make >/dev/null; then
  generator='Unix Makefiles' keep_going=(-k)
elif command -v ninja >/dev/null; then
  generator=Ninja keep_going=(-k 0)
else
  refuse "no make and no ninja; one of them is needed"
fi

# Machine code of the GPU itself, or where this nvcc is older than the GPU, code of the last one that it knows, which
# the driver translates.
if [[ -n $arch ]]; then
  architecture=$arch-real
else
  architecture=${capability/./}-real
  known=$("$nvcc" --list-gpu-arch 2>/dev/null | sed -nE 's/^compute_([0-9]+)$/\1/p' | sort -n)
  if [[ -n $known ]] && ! grep -qx "${capability/./}" <<<"$known"; then
    older=$(awk -v limit="${capability/./}" '$1 < limit' <<<"$known" | tail -n 1)
    [[ -n $older ]] || refuse "nvcc $nvcc_version builds nothing for compute capability $capability"
    architecture=$older-virtual
  fi
fi

[[ $force == yes || ! -e $out/samples.jsonl ]] ||
  refuse "$out/samples.jsonl exists; --force replaces it, --out names another folder"
{ mkdir -p "$out" && [[ -w $out ]]; } || refuse "$out cannot be written"
out=$(cd "$out" && pwd)
build=$root/build/device_check
mkdir -p "$build" || refuse "$build cannot be written"
# Of an earlier run: nothing old may pass for a result of this one, a program neither (its objects stay). Samples stay
# until there are new ones.
rm -f "$build"/{samples.jsonl,rates.txt,tests.txt,*.log,*.part,test_cuda_*_gpu,device_calibration} \
  "$out"/{summary.txt,build.log,tests.log,*.part}

# --- the run: phases with a time limit each, so that all of it ends within 8 minutes
readonly total=470 most_build=330 most_test=60 most_tests=90 most_calibration=240
failed=0 interrupted=0
readonly most_ending=30  # from Ctrl-C on
trap 'interrupted=1' INT TERM

say() { printf '[%3d s] %s\n' "$SECONDS" "$*"; }

# limited SECONDS WORDS COMMAND...: its status, 124 where it was ended. Says WORDS now and then.
limited() {
  local end=$((SECONDS + $1)) words=$2 said=$SECONDS told=0 job
  shift 2
  ((!interrupted)) || return 130
  # A process group of its own, which can be ended whole. Only the job's: a terminal's Ctrl-C must reach this shell, not
  # the sleep alone.
  set -m
  "$@" </dev/null &
  job=$!
  set +m
  while kill -0 "$job" 2>/dev/null; do
    if ((interrupted && !told)); then
      told=1 end=$((SECONDS + most_ending < end ? SECONDS + most_ending : end))
      kill -TERM -- "-$job" 2>/dev/null
    fi
    if ((SECONDS >= end)); then
      kill -TERM -- "-$job" 2>/dev/null
      sleep 2
      kill -KILL -- "-$job" 2>/dev/null
      wait "$job" 2>/dev/null
      return 124
    fi
    if [[ -n $words ]] && ((SECONDS >= said + 20)); then
      said=$SECONDS
      say "$words"
    fi
    sleep 0.2
  done
  wait "$job" 2>/dev/null
  local status=$? i
  # make removes what is half written before it goes.
  for ((i = 0; told && i < 25; ++i)); do
    kill -0 -- "-$job" 2>/dev/null || break
    sleep 0.2
  done
  return "$status"
}

# shellcheck disable=SC2317  # called by name
build_all() {
  cmake -S "$root/tests/device_check" -B "$build" -G "$generator" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_COMPILER="$compiler" -DKVLANE_NVCC="$nvcc" -DKVLANE_CUDA_ARCHITECTURES="$architecture" &&
    cmake --build "$build" -j "$jobs" -- "${keep_going[@]}"
} >"$build/build.log" 2>&1

commit=unknown
if [[ -e $root/.git ]] && command -v git >/dev/null; then
  commit=$(git -c safe.directory="$root" -C "$root" describe --always --dirty=+ --abbrev=10 --match=nothing 2>/dev/null) || commit=unknown
fi
# An archive of the tree has it written in (sim/cli/version.cmake).
archived=$(sed -nE 's/^set\(COMMIT "([0-9a-f]{7,40})"\).*/\1/p' "$root/sim/cli/version.cmake")
commit=${archived:-$commit}

say "$gpu_name, compute capability $capability, driver$driver; CUDA $nvcc_version, building for $architecture"
began=$SECONDS
limited "$most_build" "building with $jobs jobs, log in $build/build.log" build_all
status=$?
built_in=$((SECONDS - began))
cp "$build/build.log" "$out/build.log.part" && mv "$out/build.log.part" "$out/build.log"
build_note=
if ((interrupted && status)); then
  build_note="interrupted after $built_in s: run this again, it goes on where it stopped"
elif [[ $status == 124 ]]; then
  build_note="cut short after $built_in s: run this again, it goes on where it stopped"
elif [[ $status != 0 ]]; then
  build_note="not everything was built: see build.log"
fi
if [[ -n $build_note ]]; then
  failed=1
  say "build: $build_note"
  grep -m 3 -iE 'error' "$out/build.log"
else
  say "built in $built_in s"
fi

# --- the tests, one program a kernel
began=$SECONDS
test_lines=
: >"$build/tests.log"
mapfile -t tests < <(cat "$build/tests.txt" 2>/dev/null)
for name in "${tests[@]}"; do
  program=$build/test_cuda_${name}_gpu
  test_began=$SECONDS
  left=$((most_tests - (SECONDS - began)))
  if [[ $capability == 7.* && ($name == hack || $name == prefill_attention) ]]; then
    result='not run: needs compute capability 8.0'
  elif ((interrupted)); then
    result='not run: interrupted'
  elif [[ ! -x $program ]]; then
    result='NOT BUILT'
  elif ((left <= 0)); then
    result='NOT RUN: no time left'
  else
    echo "== $name" >>"$build/tests.log"
    limited "$((left < most_test ? left : most_test))" '' "$program" >>"$build/tests.log" 2>&1
    status=$?
    ((!interrupted || !status)) || status=interrupted
    case $status in
      0) result=passed ;;
      interrupted) result=interrupted ;;
      77) result='NOT RUN: the program sees no GPU' ;;
      124) result="FAILED: ended after $((SECONDS - test_began)) s" ;;
      *) result="FAILED: exit status $status" ;;
    esac
  fi
  [[ $result == passed || $result == 'not run'* ]] || failed=1
  test_lines+=$(printf '  %-20s %s, %d s' "$name" "$result" $((SECONDS - test_began)))$'\n'
  say "test $name: $result"
done
tested_in=$((SECONDS - began))
mv "$build/tests.log" "$out/tests.log"

# --- the measurements
began=$SECONDS
left=$((total - 20 - SECONDS))
seconds=$((left < most_calibration ? left : most_calibration))
calibration_note=
if ((interrupted)); then
  calibration_note='interrupted before they began'
elif [[ ! -x $build/device_calibration ]]; then
  calibration_note='the program was not built: see build.log'
elif ((seconds < 10)); then
  calibration_note='no time left: run this again, the build is done'
else
  say "measuring for at most $seconds s"
  wait_for_quiet=$((seconds / 3 < 60 ? seconds / 3 : 60))
  limited "$((seconds + 15))" '' "$build/device_calibration" --device 0 --seconds "$seconds" --wait "$wait_for_quiet" \
    --commit "$commit" --shapes "$root/calibrate/measure/gpu_shapes.txt" --samples "$build/samples.jsonl" \
    --summary "$build/rates.txt" 2>"$build/calibration.log"
  status=$?
  cat "$build/calibration.log" >&2
  [[ $status == 0 ]] || calibration_note="device_calibration ended with status $status: $(tail -n 1 "$build/calibration.log")"
fi
if ((interrupted)) && [[ -z $calibration_note ]]; then calibration_note='interrupted: what was measured by then'; fi
measured_in=$((SECONDS - began))
trap '' INT TERM  # what is left takes no time
[[ -z $calibration_note ]] || { failed=1 && say "measurements: $calibration_note"; }
new_samples=no
if [[ -s $build/samples.jsonl ]]; then
  if cp "$build/samples.jsonl" "$out/samples.jsonl.part" && mv "$out/samples.jsonl.part" "$out/samples.jsonl"; then
    new_samples=yes
  else
    failed=1
  fi
fi

# --- what came of it
{
  echo "kvlane device check, $(date -u '+%Y-%m-%d %H:%M UTC'), commit $commit"
  echo
  echo "GPU: $gpu_name,$gpu_memory, compute capability $capability, driver$driver"
  echo "host: $(sed -nE 's/^model name[^:]*: (.*)/\1/p' /proc/cpuinfo | head -n 1), $(nproc) threads, $(uname -sr)"
  echo "compilers: CUDA $nvcc_version, $(basename "$compiler") ${compiler_version:-unknown}, CMake $cmake_version; for $architecture"
  echo "build: ${build_note:-complete}"
  echo
  echo 'tests (tests.log):'
  printf '%s' "$test_lines"
  echo
  echo "measurements: ${calibration_note:-complete}"
  [[ ! -f $build/rates.txt ]] || cat "$build/rates.txt"
  echo
  echo "time: build $built_in s, tests $tested_in s, measurements $measured_in s; all $SECONDS s"
  if [[ $new_samples == yes ]]; then
    echo 'next, on any machine with kvlane: ./kvlane calibrate fit samples.jsonl -o NAME.yaml'
  elif [[ -e $out/samples.jsonl ]]; then
    echo 'there are no new samples: samples.jsonl is of an earlier run'
  else
    echo 'there are no samples'
  fi
} >"$out/summary.txt.part" && mv "$out/summary.txt.part" "$out/summary.txt"
echo
cat "$out/summary.txt"
echo "in $out"
exit "$failed"
