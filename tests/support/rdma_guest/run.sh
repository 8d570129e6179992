#!/usr/bin/env bash
# run.sh DIR [COMMAND ARGUMENTS]: RDMA verbs without RDMA hardware. Boots Debian's kernel in qemu (emulated: no KVM, no
# privileges, no network), with two Soft-RoCE devices, rxe0 = 10.9.0.1 and rxe1 = 10.9.0.2, joined by a veth pair, copies
# DIR to /test with the libraries that its programs need, and runs COMMAND there (default ./run).
# Ends with the command's code; 77: cannot run here, says why; 124: over time; 125: the guest died.
#   KVLANE_GUEST_TIMEOUT_S=150   KVLANE_GUEST_MEMORY_MIB=1536   KVLANE_GUEST_CACHE=build/rdma-guest
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export KVLANE_ROOT=${KVLANE_ROOT:-$(cd "$here/../../.." && pwd)}
source "$KVLANE_ROOT/tests/run/lib.sh"
source "$here/kernel.sh"

skip() { say "RDMA guest skipped: $*"; exit 77; }
[[ $# -ge 1 && -d $1 ]] || die "usage: run.sh DIR [COMMAND ARGUMENTS]; '${1-}' is not a folder"
folder=$(cd "$1" && pwd)
shift
(($#)) || set -- ./run
limit_s=${KVLANE_GUEST_TIMEOUT_S:-150}
cache=${KVLANE_GUEST_CACHE:-$KVLANE_ROOT/build/rdma-guest}

[[ $(uname -m) == x86_64 ]] || skip "the guest is amd64, this machine is $(uname -m)"
want_packages "${KVLANE_GUEST_PACKAGES[@]}"
PATH=$PATH:/usr/sbin:/sbin
for tool in qemu-system-x86_64 busybox cpio zstd modprobe ip rdma apt-get; do
  command -v "$tool" >/dev/null || skip "no $tool (Debian: ${KVLANE_GUEST_PACKAGES[*]})"
done
library_folder=/usr/lib/x86_64-linux-gnu
compgen -G "$library_folder/libibverbs/librxe-*.so" >/dev/null || skip "no Soft-RoCE provider (ibverbs-providers)"

mkdir -p "$cache"
# One at a time prepares the kernel; its name says which modules it was unpacked with.
kernel=$cache/kernel-$(printf '%s\n' "${guest_modules[@]}" | cat - "$here/kernel.sh" | cksum | cut -d' ' -f1)
exec 9>"$cache/lock"
flock 9
if [[ ! -d $kernel ]]; then
  why=$(guest_kernel "$kernel" 9>&-) || skip "no kernel: $why"
fi
exec 9>&-

scratch=$(mktemp -d)
qemu=
finish() {
  [[ -z $qemu ]] || { kill "$qemu" 2>/dev/null && wait "$qemu" || true; }
  rm -rf "$scratch"
}
trap finish EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
trap 'exit 129' HUP

# The guest's files: one archive in memory.
root=$scratch/root
mkdir -p "$root"/{bin,proc,sys,dev,tmp,guest,lib64,etc/libibverbs.d} "$root$library_folder/libibverbs"
ln -s usr/lib "$root/lib"
cp "$(command -v busybox)" "$root/bin/busybox"
cp "$(command -v ip)" "$(command -v rdma)" "$root/guest"
cp -r "$kernel/modules" "$root/modules"
cp -r "$folder" "$root/test"
cp /etc/libibverbs.d/rxe.driver "$root/etc/libibverbs.d"
cp "$library_folder"/libibverbs/librxe-*.so "$root$library_folder/libibverbs"
# Read by libstdc++ and libgcc at run time, where ldd does not see it.
cp "$library_folder/libgcc_s.so.1" "$root$library_folder"
while read -r library; do
  target=$library
  [[ $library != /lib/* ]] || target=/usr$library  # merged in the guest, whatever it is here
  mkdir -p "$root${target%/*}"
  cp -L "$library" "$root$target"
done < <(find "$root/test" "$root/guest" "$root$library_folder/libibverbs" -type f \( -perm -100 -o -name '*.so*' \) \
  -exec ldd {} + 2>/dev/null | grep -oE '(=> |^\s*)/[^ ]+ \(' | grep -oE '/[^ ]+' | sort -u)
cp "$here/init.sh" "$root/init"
chmod 755 "$root/init"
{
  printf 'limit_s=%d\n' $((limit_s > 30 ? limit_s - 20 : limit_s))
  printf 'set --'
  # busybox's shell reads '...' only.
  for word in "$@"; do printf " '%s'" "${word//\'/\'\\\'\'}"; done
  echo
} >"$root/command"
(cd "$root" && find . -print0 | cpio --null --create --format=newc --owner=0:0 --quiet) | zstd -q -1 >"$scratch/initrd"
rm -rf "$root"

# The guest goes with this script, even if that is killed: timeout passes its own signal on to qemu.
boot() {
  : >"$scratch/result"
  setpriv --pdeathsig TERM timeout -k 5 "$limit_s" qemu-system-x86_64 -nodefaults -no-user-config -display none \
    -no-reboot -nic none -machine pc -accel tcg,thread=multi -cpu max -smp 2 -m "${KVLANE_GUEST_MEMORY_MIB:-1536}" \
    -kernel "$kernel/kernel" -initrd "$scratch/initrd" -serial stdio -serial "file:$scratch/result" \
    -append "console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off no_timer_check tsc=reliable random.trust_cpu=on" \
    </dev/null &
  qemu=$!
  local waited
  # An emulated boot hangs once in some hundred, before its first process: begun again. The command never is.
  for ((waited = 0; waited < 90; ++waited)); do
    ! grep -q up "$scratch/result" || break
    kill -0 "$qemu" 2>/dev/null || break
    sleep 0.5
  done
  grep -q up "$scratch/result" || { kill "$qemu" 2>/dev/null || true; }
  code=0
  wait "$qemu" || code=$?
  qemu=
}

started=$SECONDS
for try in 1 2 3; do
  boot
  ! grep -q up "$scratch/result" || break
  say "RDMA guest: boot $try did not come up (qemu ended with $code)"
done
if ((code == 124 || code == 137)); then
  say "RDMA guest: stopped after $limit_s s"
  exit 124
fi
result=$(tr -d '\r' <"$scratch/result" | sed -n 's/^exit \([0-9]*\)$/\1/p' | tail -n 1)
if [[ -z $result ]]; then
  say "RDMA guest: ended without a result (qemu ended with $code)"
  exit 125
fi
say "RDMA guest: code $result after $((SECONDS - started)) s"
exit "$result"
