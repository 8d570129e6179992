# shellcheck shell=bash
# Stage: every C++ file as clang-format 14 writes it (other versions differ).
if ! command -v clang-format-14 >/dev/null; then
  echo "clang-format-14 is not installed: nothing was checked"
  exit 77
fi
source_files '*.h' '*.cpp' '*.cu' | xargs -r -d '\n' clang-format-14 --dry-run -Werror ||
  { echo "run: clang-format-14 -i on the files above"; exit 1; }
