#!/usr/bin/env bash
# A scenario file that nothing uses is an error. Presets (hardware, models, profiles, workloads) are what `kvlane list`
# shows; every other file must be named, by path or by the folder it is in, in a test, a study, a script or a document.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh" "$1"

used=$(mktemp)
trap 'rm -f "$used"' EXIT
for place in README.md CONTRIBUTING.md sim tests analysis calibrate scenarios; do
  [[ -e $place ]] && find "$place" -type f -size -512k ! -path '*/lint/*' ! -path 'tests/data/*' -exec cat {} + >>"$used"
done

failed=0
while read -r file; do
  folder=$(dirname "$file")
  case $file in
    scenarios/hardware/* | scenarios/models/* | scenarios/profiles/* | scenarios/workloads/*) continue ;;
  esac
  # A test that runs a whole folder names it: scenarios/smoke/*.yaml, "scenarios/paper".
  if ! grep -qF -e "$file" -e "$folder/*.yaml" -e "\"$folder\"" -e "../${file#scenarios/}" "$used"; then
    echo "$file: no test, study, script or document names it"
    failed=1
  fi
done < <(find scenarios -type f \( -name '*.yaml' -o -name '*.yml' \) | LC_ALL=C sort)
exit "$failed"
