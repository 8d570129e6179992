#!/usr/bin/env bash
# Who may include whom in sim/, written out. A folder that is not in the table is an error, and so is an include of a
# kvlane header from outside sim/ (kernels/, calibrate/) below sim/cli.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh" "$1"

declare -A allowed=(
  [base]=""
  [port]="base"
  [des]="base port"
  [net]="base port des"
  [kv]="base port"
  [gpu]="base port des net kv"
  [select]="base port kv gpu"
  [policy]="base port kv select"
  [serving]="base port net kv gpu select policy"
  [metrics]="base port net kv gpu select policy serving"
  [scenario]="base port des net kv gpu select policy serving metrics"
  [report]="base port des net kv gpu select policy serving metrics scenario"
  [run]="base port des net kv gpu select policy serving metrics scenario report"
  [study]="base port des net kv gpu select policy serving metrics scenario report run"
  [cli]="base port des net kv gpu select policy serving metrics scenario report run study"
)

failed=0
while IFS=: read -r file number text; do
  layer=${file#sim/}
  layer=${layer%%/*}
  name=$(sed -E 's/^[^"]*"([^"]*)".*$/\1/' <<<"$text")
  if [[ -z ${allowed[$layer]+known} ]]; then
    echo "$file: layer sim/$layer is not in the table of $(basename "$0")"
    failed=1
  elif [[ $name != sim/*/* ]]; then
    if [[ $layer != cli ]]; then
      echo "$file:$number: includes \"$name\"; headers of ours are named from the root: \"sim/LAYER/NAME.h\""
      failed=1
    fi
  else
    target=${name#sim/}
    target=${target%%/*}
    if [[ $target != "$layer" && " ${allowed[$layer]} " != *" $target "* ]]; then
      echo "$file:$number: sim/$layer must not include sim/$target"
      failed=1
    fi
  fi
done < <(cpp_files sim | code_lines | grep -E '^[^:]+:[0-9]+:[ \t]*#[ \t]*include[ \t]*"' || true)

# The other direction: the kernels know nothing of ours, calibrate/ everything but the command line.
while IFS=: read -r file number text; do
  [[ -n $file ]] || continue
  echo "$file:$number: must not include this:$text"
  failed=1
done < <({
  cpp_files kernels | code_lines | grep -E '#[ \t]*include[ \t]*"(sim|calibrate)/' || true
  cpp_files calibrate | code_lines | grep -E '#[ \t]*include[ \t]*"sim/cli/' || true
})
exit "$failed"
