# Shared by the launcher and the stages of `./kvlane test`. Sourced, never run; needs KVLANE_ROOT.
# shellcheck shell=bash

# Names on Debian 12 and Ubuntu 22.04/24.04. One differs: Ubuntu 22.04 has no libclang-rt-14-dev, there the sanitizer
# and fuzzer runtimes come with clang-14 itself.
KVLANE_BUILD_PACKAGES=(g++ cmake ninja-build ccache libfmt-dev libyaml-cpp-dev nlohmann-json3-dev libboost-dev
  libboost-program-options-dev libeigen3-dev libhwy-dev libopenblas-pthread-dev
  libboost-context-dev zlib1g-dev doctest-dev librapidcheck-dev libibverbs-dev ibverbs-providers)
KVLANE_TEST_PACKAGES=(git libsimgrid-dev python3-matplotlib python3-pandas)
# Left out aloud where the distribution does not have them (any more); the stage that needs one is then skipped.
KVLANE_OPTIONAL_PACKAGES=(clang-14 clang-tidy-14 clang-format-14 libclang-rt-14-dev g++-11)
# For tests/support/rdma_guest, which says so and is left out without them.
KVLANE_GUEST_PACKAGES=(qemu-system-x86 busybox-static cpio zstd xz-utils kmod iproute2 ibverbs-providers)
KVLANE_BENCH_PACKAGES=(libbenchmark-dev libsimgrid-dev libns3-dev)

say() { printf 'kvlane: %s\n' "$*" >&2; }
die() { say "$*"; exit 2; }

# The packages among "$@" that are not installed, one a line.
missing_packages() {
  { dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true; } | sed -n 's/^installed //p' |
    { grep -vxFf /dev/stdin <(printf '%s\n' "$@") || true; }
}

# The packages among "$@" that apt can install, one a line. An unknown g++ is a pattern to apt: keep exact names only.
available_packages() {
  { LC_ALL=C apt-cache policy "$@" 2>/dev/null || true; } | awk '/^[^ ].*:$/ { name = substr($1, 1, length($1) - 1) }
    /^  Candidate:/ && $2 != "(none)" { print name }' | { grep -xFf <(printf '%s\n' "$@") || true; }
}

apt_get() { DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600 "$@" >&2 </dev/null; }

# need_packages NAME PACKAGE...: installs what is missing. NAME: of the stamp that lets the next start skip the look-up.
# Without root it names them in one command, with those in KVLANE_ALSO that a later want_packages would ask for.
need_packages() {
  local stamp=$KVLANE_ROOT/build/packages.$1 wanted missing
  shift
  wanted="$*"
  if ! command -v dpkg-query >/dev/null; then
    local tool
    for tool in cmake ninja; do
      command -v "$tool" >/dev/null ||
        die "not Debian or Ubuntu, and $tool is missing. Install what these Debian packages hold: $wanted"
    done
    return 0
  fi
  if [[ $stamp -nt /var/lib/dpkg/status && $(<"$stamp") == "$wanted" ]]; then return 0; fi
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]})); then
    if ((EUID)); then
      [[ -z ${KVLANE_ALSO-} ]] || mapfile -t missing < <(missing_packages "$@" && missing_packages $KVLANE_ALSO)
      say "these packages are missing; install them and run kvlane again:"
      printf 'sudo apt-get update && sudo apt-get install -y --no-install-recommends %s\n' "${missing[*]}" >&2
      exit 2
    fi
    say "installing ${missing[*]}"
    if [[ $(available_packages "${missing[@]}" | wc -l) -lt ${#missing[@]} ]]; then apt_get update; fi
    apt_get install -y --no-install-recommends "${missing[@]}" ||
      { apt_get update && apt_get install -y --no-install-recommends "${missing[@]}"; } ||
      die "apt-get could not install ${missing[*]}"
  fi
  mkdir -p "$KVLANE_ROOT/build"
  printf '%s\n' "$wanted" >"$stamp.$$" && mv "$stamp.$$" "$stamp"
}

# Installs those of the optional packages that exist here; without root the missing ones are only named.
want_packages() {
  command -v dpkg-query >/dev/null || return 0
  local missing available
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  if ((EUID)); then
    say "left out without ${missing[*]} (sudo apt-get install -y --no-install-recommends ${missing[*]})"
    return 0
  fi
  mapfile -t available < <(available_packages "${missing[@]}")
  if ((${#available[@]} < ${#missing[@]})); then
    apt_get update
    mapfile -t available < <(available_packages "${missing[@]}")
  fi
  if ((${#available[@]})); then
    say "installing ${available[*]}"
    apt_get install -y --no-install-recommends "${available[@]}" || say "could not install ${available[*]}"
  fi
}

# One configure or build at a time in a tree; the lock is not inherited by what runs afterwards.
with_tree_lock() {
  local tree=$1
  shift
  mkdir -p "$KVLANE_ROOT/build" || die "cannot write to $KVLANE_ROOT/build"
  if command -v flock >/dev/null; then
    (flock 9 && "$@" 9>&-) 9>"$KVLANE_ROOT/build/lock.$tree"
  else
    "$@"
  fi
}

configure_locked() {
  local tree=$1 log=$KVLANE_ROOT/build/configure.$1.log
  shift
  # A checkout that was moved or copied with its build folder starts that tree afresh.
  if [[ -f $KVLANE_ROOT/build/$tree/build.ninja ]]; then
    grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$KVLANE_ROOT" "$KVLANE_ROOT/build/$tree/CMakeCache.txt" && return 0
    rm -rf "$KVLANE_ROOT/build/${tree:?}"
  fi
  say "configuring build/$tree"
  if ! (cd "$KVLANE_ROOT" && cmake --preset "$tree" "$@") >"$log" 2>&1; then
    cat "$log" >&2
    say "configuring build/$tree failed"
    command -v dpkg-query >/dev/null || say "it needs what these Debian packages hold: ${KVLANE_BUILD_PACKAGES[*]}"
    return 1
  fi
}

# configure_tree PRESET [-DNAME=VALUE...]: first configuration only, later ones are Ninja's.
configure_tree() { with_tree_lock "$1" configure_locked "$@"; }

# Ninja's output made quiet: a counter on a terminal, one line in a log, errors whole, nothing when nothing was stale.
# A loop of the shell's own, since mawk would wait for a full buffer.
show_progress() {
  local line said="" counter=""
  local step='^\[[0-9]+/[0-9]+\] '
  [[ -t 2 ]] && counter=2
  counter=${KVLANE_PROGRESS_FD:-$counter}
  while IFS= read -r line; do
    if [[ $line =~ ${step}(Building|Linking) ]]; then
      if [[ -n $counter ]]; then
        printf '\r\033[Kkvlane: building build/%s %s' "$1" "${line%% *}" >&"$counter"
      elif [[ -z $said ]]; then
        say "building build/$1"
      fi
      said=1
    elif [[ ! $line =~ $step && $line != "ninja: Entering"* && $line != "ninja: no work"* ]]; then
      [[ -z $counter || -z $said ]] || printf '\r\033[K' >&"$counter"
      printf '%s\n' "$line" >&2
    fi
  done
  [[ -z $counter || -z $said ]] || printf '\r\033[K' >&"$counter"
}

build_locked() {
  local tree=$1
  shift
  configure_locked "$tree" || return 1
  ninja -C "$KVLANE_ROOT/build/$tree" "$@" 2>&1 | show_progress "$tree"
}

# build_tree PRESET TARGET...: configures where that was never done, then builds what is stale.
build_tree() { with_tree_lock "$1" build_locked "$@" || exit 1; }

# Tracked files (in a checkout; else all of them) that match one of the patterns.
source_files() {
  cd "$KVLANE_ROOT"
  if [[ -e .git ]]; then
    git -c safe.directory="$KVLANE_ROOT" ls-files -- "$@" | while read -r file; do [[ -f $file ]] && echo "$file"; done
  else
    local pattern tests=()
    for pattern in "$@"; do tests+=(-o -name "$pattern"); done
    find . -path ./build -prune -o \( "${tests[@]:1}" \) -type f -print | sed 's|^\./||'
  fi | LC_ALL=C sort
}

# Where a stage may show a counter: the terminal of whoever started the suite.
progress() {
  [[ -z ${KVLANE_PROGRESS_FD-} ]] || printf '\r\033[K%s' "$*" >&"$KVLANE_PROGRESS_FD"
}
