#!/usr/bin/env bash
# Every YAML file that ships must pass `kvlane validate`.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh" "$1"
kvlane=$2
failed=0
files=0
while read -r file; do
  files=$((files + 1))
  "$kvlane" validate "$file" >/dev/null || { echo "$file: kvlane validate exits with $?"; failed=1; }
done < <(find scenarios -type f -name '*.yaml' | LC_ALL=C sort)
echo "$files files"
((files > 0)) || failed=1
exit "$failed"
