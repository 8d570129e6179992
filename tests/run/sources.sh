# shellcheck shell=bash
# Stage: sources.sh tidy | gcc-11. Looks at each source of sim/, as many at a time as there are cores. A source is looked
# at again only when it, a header that it includes, the tool or its settings changed (build/checked/TOOL).
tool=$1
flags=(-std=c++20 -I"$KVLANE_ROOT" -I"$KVLANE_ROOT/build/release/generated" -isystem /usr/include/eigen3 '-DKVLANE_SOURCE_PRESETS="scenarios"'
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror)
# Highway compiles a kernel once per instruction set: one of them is enough to read it.
flags+=(-DHWY_COMPILE_ONLY_STATIC)
[[ $(uname -m) == x86_64 ]] && flags+=(-mavx2 -mfma -mbmi -mbmi2 -mf16c -mpclmul -maes)
case $tool in
  tidy)
    program=clang-tidy-14
    command=(clang-tidy-14 --quiet --config-file="$KVLANE_ROOT/.clang-tidy" %FILE% -- "${flags[@]}")
    ;;
  gcc-11)
    program=g++-11
    command=(g++-11 -fsyntax-only "${flags[@]}" %FILE%)
    ;;
esac
if ! command -v "$program" >/dev/null; then
  echo "$program is not installed: nothing was checked"
  exit 77
fi

checked=$KVLANE_ROOT/build/checked/$tool
mkdir -p "$checked"
settings=$({ "$program" --version; cat .clang-tidy tests/run/sources.sh; } | sha256sum)
# Content hashes of everything that a source may include, for the keys.
hashes=$(mktemp)
trap 'rm -f "$hashes"' EXIT
sha256sum $(source_files 'sim/*.h' 'sim/*.cpp' 'calibrate/*.h' 'kernels/*.h') >"$hashes"

check_one() { # check_one SOURCE: prints what is wrong with it
  local source=$1 key log
  # The headers of ours, found by the preprocessor; a file that it cannot read is the tool's to report.
  key=$({
    echo "$settings"
    g++ -std=c++20 -MM -I. -Ibuild/release/generated "$source" 2>/dev/null | tr ' \\' '\n\n' | grep -E '^(sim|calibrate|kernels)/' |
      LC_ALL=C sort -u | awk 'NR == FNR { hash[$2] = $1; next } { print hash[$1], $1 }' "$hashes" -
  } | sha256sum | cut -c1-40)
  [[ -e $checked/$key ]] && return 0
  log=$("${command[@]/\%FILE%/$source}" 2>&1) && { : >"$checked/$key"; return 0; }
  printf '%s\n' "$log" | grep -vE '^[0-9]+ warnings? (generated|treated)|^Suppressed|^Use -header-filter' || true
  return 1
}

mapfile -t sources < <(source_files 'sim/*.cpp' 'calibrate/*.cpp' 'kernels/*.cpp')
status=0
started=0
for source in "${sources[@]}"; do
  if ((started >= $(nproc))); then wait -n || status=1; fi
  progress "kvlane: $tool $((++started))/${#sources[@]}"
  check_one "$source" &
done
while [[ -n $(jobs -rp) ]]; do wait -n || status=1; done
progress ""
find "$checked" -type f -mtime +30 -delete
echo "$tool: ${#sources[@]} sources"
exit "$status"
