# shellcheck shell=bash
# Stage: determinism.sh TREES…: the same scenario gives the same bytes: run twice, by the release tree and the others (g++
# and clang, under sanitizers), on one thread and two.
programs=(build/release/bin/kvlane)
for tree; do programs+=("build/$tree/bin/kvlane"); done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
compared=0

# compare A B WHAT: two folders of results, byte for byte; prints the first line that differs.
compare() {
  compared=$((compared + 1))
  diff -rq "$1" "$2" >/dev/null && return 0
  echo "$3: the results differ"
  diff -r "$1" "$2" | cut -c1-300 | head -n 8
  status=1
}

# results PROGRAM SCENARIO FOLDER: everything that a run writes.
results() {
  mkdir -p "$3"
  "$1" run "$2" --format json --requests "$3/requests.csv" --trace "$3/trace.json" >"$3/result.json" 2>"$3/stderr" ||
    { echo "$1 run $2 failed:"; cat "$3/stderr"; status=1; }
}

# sweeps PROGRAM STUDY FOLDER THREADS: runs.csv and crossovers.csv; the journal is in the order in which runs end.
sweeps() {
  "$1" sweep "$2" -j "$4" --out "$3" >/dev/null 2>"$work/stderr" ||
    { echo "$1 sweep $2 -j $4 failed:"; cat "$work/stderr"; status=1; }
  rm -f "$3/journal.jsonl"
}

is_study() { grep -qE '^kind: *study' "$1"; }

scenarios=()
studies=()
for file in scenarios/smoke/*.yaml; do
  if is_study "$file"; then studies+=("$file"); else scenarios+=("$file"); fi
done
if ((${#scenarios[@]} == 0)); then
  echo "no scenario in scenarios/smoke"
  exit 1
fi
for scenario in "${scenarios[@]}"; do
  name=$(basename "$scenario" .yaml)
  results "${programs[0]}" "$scenario" "$work/$name/first"
  results "${programs[0]}" "$scenario" "$work/$name/again"
  compare "$work/$name/first" "$work/$name/again" "$scenario twice by ${programs[0]}"
  for program in "${programs[@]:1}"; do
    results "$program" "$scenario" "$work/$name/$(basename "${program%/bin/kvlane}")"
    compare "$work/$name/first" "$work/$name/$(basename "${program%/bin/kvlane}")" \
      "$scenario by ${programs[0]} and $program"
  done
done
for study in "${studies[@]}"; do
  name=$(basename "$study" .yaml)
  sweeps "${programs[0]}" "$study" "$work/$name/j1" 1
  for program in "${programs[@]}" build/tsan/bin/kvlane; do  # only a sweep has threads
    sweeps "$program" "$study" "$work/$name/j2" 2
    compare "$work/$name/j1" "$work/$name/j2" "$study -j 1 by ${programs[0]} and -j 2 by $program"
    rm -rf "$work/$name/j2"
  done
done
echo "$compared comparisons of ${#scenarios[@]} scenarios and ${#studies[@]} studies by ${#programs[@]} programs"
exit "$status"
