#!/usr/bin/env bash
# doctest_selftest.sh PROGRAM: the device check's doctest.h passes what holds, and fails what does not with place and values.
set -u
program=$1
failed=0

complain() {
  echo "$*"
  echo "$output"
  failed=1
}

output=$("$program") || complain "nothing is wrong, but exit status $?"
[[ $output == *"test cases: 10, 0 failed; checks: "*", 0 failed"*"beyond REQUIRE: 1"* ]] || complain "without a fault"

# expect FAULT WORDS...: exit status 1, one failed case, and every one of the words.
expect() {
  local fault=$1 words
  output=$("$program" "$fault")
  local status=$?
  [[ $status == 1 ]] || complain "$fault: exit status $status"
  for words in "failed: $fault" "10, 1 failed" "${@:2}"; do
    [[ $output == *"$words"* ]] || complain "$fault: no '$words'"
  done
}
expect check "doctest_selftest.cpp:" "two == 2 does not hold, values: 3 == 2" "with seed 41" "with two := 3"
expect flag "flag does not hold, values: false"
expect approx "values: 1.01 == Approx(1)"
expect vector "values: {1, 5} == {1, 2}"
expect require "beyond REQUIRE: 0"
expect "nothing thrown" "threw nothing"
expect "another exception" "threw another exception: the message"
expect "another message" "threw with: the message; expected: words"
expect exception "exception: the message" "with seed := 43"
exit "$failed"
