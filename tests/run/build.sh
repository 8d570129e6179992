# shellcheck shell=bash
# Stage: build TREE TARGETS… . Errors go to ctest, the progress to whoever watches.
build_tree "$@"
echo "build/$1 is up to date"
