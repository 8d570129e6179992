# Sourced by run.sh: a Debian kernel and the modules that the guest loads, unpacked from the package and never
# installed. guest_kernel FOLDER: leaves FOLDER/kernel, FOLDER/modules/*.ko and FOLDER/modules/order.
# shellcheck shell=bash

# Without crc32_pclmul: emulated carry-less multiplication costs a third of the guest's bandwidth.
guest_modules=(rdma_rxe crc32_generic veth sch_tbf sch_netem)

kernel_package() { apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image-[0-9]/ { print $2; exit }'; }

# The number of $3 bytes, little endian, at offset $2 of file $1.
number_at() { od -An -v -t "u$3" -j "$2" -N "$3" "$1" | tr -d ' '; }

# A bzImage unpacks itself, which takes seconds without KVM: where the payload is xz, qemu is given the ELF file in it
# (fields of the header: Documentation/arch/x86/boot.rst of the kernel).
unpack_kernel() {
  local image=$1 to=$2 start
  start=$((($(number_at "$image" $((0x1f1)) 1) + 1) * 512 + $(number_at "$image" $((0x248)) 4)))
  tail -c +$((start + 1)) "$image" | head -c "$(number_at "$image" $((0x24c)) 4)" | xz -dcq --single-stream >"$to" 2>/dev/null
  [[ $(head -c 4 "$to") == $'\x7fELF' ]] || cp "$image" "$to"
}

guest_kernel() {
  local folder=$1 package version module file name
  package=$(kernel_package)
  if [[ -z $package ]] && ((EUID == 0)); then apt_get update && package=$(kernel_package); fi
  [[ -n $package ]] || { echo "no package linux-image-amd64 (only Debian's kernel is known to have rdma_rxe)"; return 1; }
  rm -rf "$folder.new" && mkdir -p "$folder.new/deb" "$folder.new/modules"
  (cd "$folder.new/deb" && { apt-get -q -o APT::Sandbox::User=root download "$package" ||
    { ((EUID == 0)) && apt-get -q update && apt-get -q -o APT::Sandbox::User=root download "$package"; }; }) >&2 ||
    { echo "cannot download $package"; return 1; }
  dpkg -x "$folder.new"/deb/*.deb "$folder.new/package"
  [[ -e $folder.new/package/lib ]] || ln -s usr/lib "$folder.new/package/lib"
  version=$(ls "$folder.new/package/lib/modules")
  depmod -b "$folder.new/package" "$version"  # the package leaves that to its installation
  for module in "${guest_modules[@]}"; do
    modprobe -d "$folder.new/package" -S "$version" --show-depends "$module" ||
      { echo "$package has no module $module" && return 1; }
  done >"$folder.new/needed" || { tail -n 1 "$folder.new/needed"; return 1; }
  awk '$1 == "insmod" && !seen[$2]++ { print $2 }' "$folder.new/needed" | while read -r file; do
    name=$(basename "$file")
    case $name in
      *.xz) name=${name%.xz} && xz -dc "$file" >"$folder.new/modules/$name" ;;
      *.zst) name=${name%.zst} && zstd -qdc "$file" >"$folder.new/modules/$name" ;;
      *) cp "$file" "$folder.new/modules/" ;;
    esac
    echo "$name" >>"$folder.new/modules/order"
  done
  unpack_kernel "$(echo "$folder.new"/package/boot/vmlinuz-*)" "$folder.new/kernel"
  rm -rf "$folder.new/deb" "$folder.new/package" "$folder.new/needed" "$folder"
  mv "$folder.new" "$folder"
}
