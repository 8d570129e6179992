# shellcheck shell=bash
# Sourced by the rules; works on the source tree in $root.
set -euo pipefail
root=$1
cd "$root"

# The C++ files below the folders "$@".
cpp_files() { find "$@" -type f \( -name '*.h' -o -name '*.cpp' \) 2>/dev/null | LC_ALL=C sort; }

# Prints FILE:LINE:TEXT of the files named on stdin without comments and without what string literals hold. An
# #include keeps its name.
code_lines() {
  xargs -r -d '\n' awk '
    FNR == 1 { comment = 0 }
    {
      line = $0
      if (line !~ /^[ \t]*#[ \t]*include/) gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
      if (comment) { if (!sub(/^.*\*\//, "", line)) next; comment = 0 }
      gsub(/\/\*[^*]*\*\//, "", line)
      sub(/\/\/.*$/, "", line)
      if (sub(/\/\*.*$/, "", line)) comment = 1
      if (line ~ /[^ \t]/) print FILENAME ":" FNR ":" line
    }'
}
