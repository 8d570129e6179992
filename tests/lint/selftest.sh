#!/usr/bin/env bash
# Each rule passes a clean tree and names a planted violation.
set -euo pipefail
rules=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

clean() {
  rm -rf "${tree:?}"/*
  mkdir -p "$tree"/sim/{base,net,policy,cli} "$tree"/scenarios/{smoke,models} "$tree/tests/cli" "$tree/calibrate"
  cat >"$tree/sim/base/a.h" <<'END'
#include <vector>
// std::cout << getenv("x"); steady_clock::now()
/* exit(1) and
   printf("") */
inline const char* text() { return "printf( std::cout"; }
struct Span { int exit() const { return 3; } };
inline int f(const Span& span) { return span.exit(); }
END
  printf '#include "sim/base/a.h"\n' >"$tree/sim/net/n.cpp"
  printf '#include <iostream>\n#include <thread>\n#include "sim/net/n.h"\nint main() { std::cout << 1; }\n' \
    >"$tree/sim/cli/main.cpp"
  printf 'name: one\n' >"$tree/scenarios/smoke/one.yaml"
  printf 'name: m\n' >"$tree/scenarios/models/m.yaml"
  printf 'run scenarios/smoke/one.yaml\n' >"$tree/tests/cli/t.sh"
}

passes() {
  bash "$rules/$1.sh" "$tree" >"$tree/out" 2>&1 || { echo "$1 fails on a clean tree:"; cat "$tree/out"; exit 1; }
}
# fails RULE TEXT: the rule fails and its output holds TEXT.
fails() {
  if bash "$rules/$1.sh" "$tree" >"$tree/out" 2>&1 || ! grep -qF -- "$2" "$tree/out"; then
    echo "$1 does not report: $2"
    cat "$tree/out"
    exit 1
  fi
}

clean
for rule in purity layering scenarios; do passes "$rule"; done

while IFS= read -r line; do
  clean
  printf '%s\n' "$line" >"$tree/sim/net/n.cpp"
  fails purity "sim/net/n.cpp:1:"
done <<'END'
#include <thread>
#include <mutex>
#include <atomic>
#include <random>
#include <condition_variable>
#include <sys/socket.h>
#include <cuda_runtime.h>
auto t = std::chrono::steady_clock::now();
auto t = system_clock::now();
std::random_device seed;
std::mt19937 generator;
const char* home = getenv("HOME");
const char* home = std::getenv("HOME");
void f() { printf("x"); }
void f() { std::printf("x"); }
void f() { fmt::print("x"); }
void f() { std::cout << 1; }
void f() { std::cerr << 1; }
void f() { exit(1); }
void f() { std::exit(1); }
int f() { return std::exit(1), 0; }
void f(bool b) { if (b) exit(1); else exit(2); }
thread_local int x;
END

clean
printf '#include <infiniband/verbs.h>\n' >>"$tree/sim/cli/main.cpp"
fails purity "sim/cli/main.cpp:5:"
clean
printf '#include "sim/policy/p.h"\n' >>"$tree/sim/net/n.cpp"
fails layering "sim/net/n.cpp:2: sim/net must not include sim/policy"
clean
printf '#include "sim/net/n.h"\n' >"$tree/sim/base/b.h"
fails layering "sim/base must not include sim/net"
clean
printf '#include "calibrate/live/loop.h"\n' >"$tree/sim/net/m.h"
fails layering 'includes "calibrate/live/loop.h"'
clean
mkdir "$tree/sim/stray"
printf '#include "sim/base/a.h"\n' >"$tree/sim/stray/s.cpp"
fails layering "sim/stray is not in the table"
clean
printf '#include "sim/cli/commands.h"\n' >"$tree/calibrate/c.cpp"
fails layering "calibrate/c.cpp:1: must not include this"
clean
mkdir "$tree/kernels"
printf '#include "sim/base/a.h"\n' >"$tree/kernels/k.cpp"
fails layering "kernels/k.cpp:1: must not include this"
clean
printf 'name: two\n' >"$tree/scenarios/smoke/two.yaml"
fails scenarios "scenarios/smoke/two.yaml"
clean
printf 'name: three\n' >"$tree/scenarios/one.yaml"
fails scenarios "scenarios/one.yaml"
