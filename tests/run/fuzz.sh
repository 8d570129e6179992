# shellcheck shell=bash
# Stage: every fuzzer replays its corpus (tests/fuzz/corpus/NAME); one whose program differs from the last green run
# also searches for KVLANE_FUZZ_SECONDS (default 15), from a fixed seed, so that what CI finds can be found again.
mapfile -t fuzzers < <(cd tests/fuzz && ls -- *_target.cpp | sed 's/_target\.cpp$//')
build_tree asan-clang "${fuzzers[@]/#/fuzz_}"
green=build/checked/fuzz
mkdir -p "$green"
status=0
for name in "${fuzzers[@]}"; do
  fuzzer=build/asan-clang/tests/fuzz/fuzz_$name
  corpus=tests/fuzz/corpus/$name
  if [[ ! -d $corpus ]]; then
    echo "$name: no corpus in $corpus"
    status=1
    continue
  fi
  log=$(mktemp)
  key=$(sha256sum <"$fuzzer" | cut -c1-40)
  found=$PWD/build/found-$name
  mkdir -p "$found"
  progress "kvlane: fuzz $name"
  if ! "$fuzzer" -runs=0 -timeout=10 -artifact_prefix="$found/" "$corpus" >"$log" 2>&1; then
    echo "$name: the corpus fails"
    tail -n 60 "$log"
    status=1
  elif [[ ! -e $green/$key ]]; then
    scratch=$(mktemp -d)
    if "$fuzzer" -seed=1 -max_total_time="${KVLANE_FUZZ_SECONDS:-15}" -timeout=10 -rss_limit_mb=4096 \
      -artifact_prefix="$found/" "$scratch" "$corpus" >"$log" 2>&1; then
      : >"$green/$key"
      echo "$name: corpus and $(sed -n 's/^Done \([0-9]*\) runs.*/\1/p' "$log") fresh inputs"
    else
      echo "$name: a fresh input fails; it is kept in $found"
      tail -n 60 "$log"
      status=1
    fi
    rm -rf "$scratch"
  else
    echo "$name: corpus, nothing changed"
  fi
  rm -f "$log"
done
progress ""
exit "$status"
