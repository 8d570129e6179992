#!/usr/bin/env bash
# The golden runner must pass what agrees and name the first line that does not.
set -euo pipefail
runner=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset KVLANE_UPDATE_GOLDEN CI

check() { # check NAME STATUS TEXT COMMAND...
  local name=$1 wanted=$2 text=$3 status=0
  shift 3
  "$@" >out 2>&1 || status=$?
  if [[ $status != "$wanted" ]] || { [[ -n $text ]] && ! grep -qF -- "$text" out; }; then
    echo "$name: exit $status, wanted $wanted and '$text'; it printed:"
    cat out
    exit 1
  fi
}

printf '1\n2\n3\n' >data
printf '# counts\n$ data\n1\n2\n3\n$ absent\n! 1\n' >good.txt
check "equal output" 0 "" "$runner" good.txt cat
printf '# counts\n$ data\n1\n4\n3\n' >wrong.txt
check "wrong line" 1 "wrong.txt:4: differs" "$runner" wrong.txt cat
check "wrong line, expected" 1 "expected: 4" "$runner" wrong.txt cat
check "wrong line, actual" 1 "actual:   2" "$runner" wrong.txt cat
printf '$ data\n1\n2\n' >short.txt
check "line too many" 1 "expected: (end of output)" "$runner" short.txt cat
printf '$ data\n1\n2\n3\n4\n' >long.txt
check "line too few" 1 "actual:   (end of output)" "$runner" long.txt cat
printf '$ absent\n' >status.txt
check "status unexpected" 1 "! 1" "$runner" status.txt cat
printf '$ absent\n! 1 cat: absent: gone\n' >message.txt
check "message differs" 1 "expected: ! 1 cat: absent: gone" "$runner" message.txt cat
printf 'no command\n' >empty.txt
check "no command" 2 "before the first" "$runner" empty.txt cat
check "not in CI" 2 "not updated in CI" env CI=true KVLANE_UPDATE_GOLDEN=1 "$runner" wrong.txt cat
check "update" 0 "updated" env KVLANE_UPDATE_GOLDEN=1 "$runner" wrong.txt cat
check "updated file passes" 0 "" "$runner" wrong.txt cat
[[ $(head -n 1 wrong.txt) == "# counts" ]]
