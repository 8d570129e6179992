#!/usr/bin/env bash
# ./kvlane test [--quick] [CTEST ARGUMENTS]: everything that CI runs, as one ctest over several build trees. Each tree's
# build is a test itself and the fixture of the tree's tests, so that a broken build fails the run and is shown once.
#   --quick   format and lint, release build, unit tests
#   -R asan/  and the like choose tests; the builds that they need come along
set -euo pipefail
source "$KVLANE_ROOT/tests/run/lib.sh"

quick=0
arguments=()
for argument in "$@"; do
  case $argument in
    --quick) quick=1 ;;
    -h | --help)
      echo "usage: ./kvlane test [--quick] [CTEST ARGUMENTS]   e.g. -R asan-ubsan/ or -L golden"
      exit 0
      ;;
    *) arguments+=("$argument") ;;
  esac
done

started=$SECONDS
if ((quick)); then
  KVLANE_ALSO=clang-format-14
  need_packages quick "${KVLANE_BUILD_PACKAGES[@]}" git
  want_packages $KVLANE_ALSO
else
  KVLANE_ALSO="${KVLANE_OPTIONAL_PACKAGES[*]}"
  need_packages test "${KVLANE_BUILD_PACKAGES[@]}" "${KVLANE_TEST_PACKAGES[@]}"
  want_packages $KVLANE_ALSO "${KVLANE_GUEST_PACKAGES[@]}"
fi
say "packages: $((SECONDS - started)) s"

trees=(release)
if ((!quick)); then
  # clang compiles for sanitizers in two thirds of g++'s time, and its tree serves the fuzzers too. A newer distribution
  # may not have it.
  if command -v clang++-14 >/dev/null; then
    trees+=(asan-clang tsan clang)
  else
    trees+=(asan-ubsan tsan)
    say "no clang++-14 here: sanitizers by g++; left out the clang build and the fuzzers"
  fi
fi

# Two configurations at a time: most of each is waiting for one compiler at a time.
started=$SECONDS
printf '%s\n' "${trees[@]}" | xargs -P 2 -I {} bash -c '
  source "$KVLANE_ROOT/tests/run/lib.sh"
  # What was installed since then may be found now: a configuration remembers what it did not find.
  [[ $KVLANE_ROOT/build/packages.test -nt $KVLANE_ROOT/build/{}/build.ninja ]] && rm -f "$KVLANE_ROOT/build/{}/build.ninja"
  compiler=()
  [[ {} == tsan ]] && command -v clang++-14 >/dev/null && compiler=(-DCMAKE_CXX_COMPILER=clang++-14)
  configure_tree {} "${compiler[@]}" || exit 1
  said=$(with_tree_lock {} ninja -C "$KVLANE_ROOT/build/{}" build.ninja 2>&1) || { printf "%s\n" "$said" >&2; exit 1; }' ||
  { say "configuring failed"; exit 1; }
say "configure: $((SECONDS - started)) s"

# A directory of its own, so that two runs with different options do not disturb each other.
suite=$KVLANE_ROOT/build/suite
((quick)) && suite=$KVLANE_ROOT/build/suite-quick
mkdir -p "$suite"
{
  printf 'set(KVLANE_ROOT [==[%s]==])\n' "$KVLANE_ROOT"
  printf 'set(KVLANE_QUICK %d)\n' "$quick"
  printf 'set(KVLANE_TREES "%s")\n' "$(IFS=';' && echo "${trees[*]}")"
  printf 'include([==[%s/tests/run/suite.cmake]==])\n' "$KVLANE_ROOT"
} >"$suite/CTestTestfile.cmake"
rm -f "$suite/Testing/Temporary/CTestCostData.txt"  # keeps the order of the stages from run to run

# Progress of the builds for someone who watches; ctest holds back what its tests print.
if [[ -t 2 ]]; then
  exec 8>&2
  export KVLANE_PROGRESS_FD=8
fi
cd "$suite"
exec ctest -j "$(nproc)" --output-on-failure --no-tests=error --no-label-summary "${arguments[@]}" </dev/null
