#!/usr/bin/env bash
# sim/ is a function of its inputs: no thread, clock, environment, printing or exit, and no <random>, whose
# distributions differ between standard libraries. Only sim/cli touches the world. Hardware headers stay out of all of it.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh" "$1"

headers='thread|jthread|mutex|shared_mutex|atomic|condition_variable|future|semaphore|latch|barrier|stop_token|random|ctime|iostream|unistd\.h|pthread\.h|time\.h|sys/[a-z]+\.h'
hardware='cuda[a-z_/]*\.h|infiniband/[a-z_]+\.h|rdma/[a-z_]+\.h'
words='steady_clock|system_clock|high_resolution_clock|random_device|mt19937(_64)?|getenv|setenv|printf|fprintf|puts|putchar|exit|_exit|abort|quick_exit|std::rand|srand|gettimeofday|clock_gettime|popen'
streams='std::(cout|cerr|clog|cin)|fmt::print|stdout|stderr'

found=$(
  cpp_files sim | grep -v '^sim/cli/' | code_lines |
    grep -P "^[^:]+:\d+:(\s*#\s*include\s*<($headers)>|.*(?<![\w.>:])(?<!\w )($words)\s*\(|.*\b(return|else|do|std::)\s*($words)\s*\(|.*\b(steady_clock|system_clock|high_resolution_clock)::now\b|.*\brandom_device\b|.*\bmt19937(_64)?\b|.*\bthread_local\b|.*($streams)\b)" || true
  cpp_files sim | code_lines | grep -P "^[^:]+:\d+:\s*#\s*include\s*[<\"]($hardware)" || true
)
if [[ -n $found ]]; then
  echo "sim/ must not use these (sim/cli may, hardware headers nobody):"
  echo "$found"
  exit 1
fi
