// kvlane doctor on made up machines: what is good is not complained about, what is broken is named
// with the command that mends it, and garbage is survived.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>

#include "calibrate/live/doctor/checks.h"
#include "tests/unit/cli/temporary_folder.h"

namespace kvlane::live::doctor {
namespace {

namespace fs = std::filesystem;

const std::string kPort = "sys/class/infiniband/mlx5_0/ports/1/";

// A server with a NIC for RoCE and two GPUs, well set up.
class MachineModel {
 public:
  MachineModel() : folder_("doctor") {
    put("proc/self/status",
        "Name:\tkvlane\nCapEff:\t0000000000000000\nCpus_allowed_list:\t0-15,32\n");
    put("proc/self/uid_map", "         0          0 4294967295\n");
    put("proc/self/cgroup", "0::/system.slice/kvlane.service\n");
    put("proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max open files            65536                524288               files     \n"
        "Max locked memory         unlimited            unlimited            bytes     \n");
    put("proc/self/mounts", "tmpfs /dev/shm tmpfs rw,nosuid,size=131072k 0 0\n");
    put("proc/self/ns/net", "");
    put("proc/meminfo",
        "MemTotal:  131072000 kB\nMemAvailable: 98304000 kB\nHugePages_Total: 64\n");
    put("proc/modules", "nvidia_peermem 16384 0 - Live 0x0\nib_uverbs 1 0 - Live 0x0\n");
    put("proc/sys/kernel/osrelease", "6.1.0-13-amd64\n");
    put("proc/sys/net/ipv4/tcp_congestion_control", "cubic\n");
    put("proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic\n");
    put("proc/sys/net/ipv4/tcp_slow_start_after_idle", "0\n");
    put("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t16777216\n");
    put("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t16777216\n");
    put("proc/sys/net/core/rmem_max", "16777216\n");
    put("proc/sys/net/core/wmem_max", "16777216\n");
    put("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
    put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    put("sys/kernel/mm/transparent_hugepage/shmem_enabled",
        "always within_size [advise] never deny force\n");
    put("sys/fs/cgroup/system.slice/kvlane.service/cpu.max", "max 100000\n");
    put("sys/fs/cgroup/system.slice/kvlane.service/memory.max", "max\n");
    interface("lo", "0x9", "unknown", "65536", "");
    interface("enp1s0np0", "0x1003", "up", "9000", "100000");
    put(kPort + "state", "4: ACTIVE\n");
    put(kPort + "rate", "100 Gb/sec (4X EDR)\n");
    put(kPort + "link_layer", "Ethernet\n");
    gid(0, "fe80:0000:0000:0000:0e42:a1ff:fe00:0001", "IB/RoCE v1");
    gid(1, "fe80:0000:0000:0000:0e42:a1ff:fe00:0001", "RoCE v2");
    gid(2, "0000:0000:0000:0000:0000:ffff:0a4d:0001", "IB/RoCE v1");
    gid(3, "0000:0000:0000:0000:0000:ffff:0a4d:0001", "RoCE v2");
    gid(4, "0000:0000:0000:0000:0000:0000:0000:0000", "");
    put("dev/infiniband/uverbs0", "");
    put("dev/nvidiactl", "");
    put("etc/libibverbs.d/mlx5.driver", "driver mlx5\n");
    put("proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC "
        "2023\n");
    for (const char* const gpu : {"0000:17:00.0", "0000:65:00.0"}) {
      put(std::string("proc/driver/nvidia/gpus/") + gpu + "/information",
          "Model: \t\t NVIDIA L20\nIRQ:   \t\t 150\n");
    }
    put("usr/lib/x86_64-linux-gnu/libcuda.so.1", "");
    for (const char* const name : {"ip", "tc", "qemu-system-x86_64", "ib_write_bw"}) program(name);
    options.root = folder_.path();
    options.search = "/usr/bin";
    options.built_with_rdma = options.built_with_cuda = true;
  }

  void put(const std::string& name, const std::string& text) {
    const fs::path path = fs::path(folder_.path()) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  void remove(const std::string& name) { fs::remove_all(fs::path(folder_.path()) / name); }
  void interface(const std::string& name, const char* flags, const char* state, const char* mtu,
                 const std::string& speed) {
    const std::string place = "sys/class/net/" + name + '/';
    put(place + "flags", std::string(flags) + '\n');
    put(place + "operstate", std::string(state) + '\n');
    put(place + "mtu", std::string(mtu) + '\n');
    if (!speed.empty()) put(place + "speed", speed + '\n');
    if (name != "lo") put(place + "device/vendor", "0x15b3\n");
  }
  void gid(int index, const std::string& address, const std::string& type) {
    const std::string number = std::to_string(index);
    put(kPort + "gids/" + number, address + '\n');
    if (type.empty()) return;
    put(kPort + "gid_attrs/types/" + number, type + '\n');
    put(kPort + "gid_attrs/ndevs/" + number, "enp1s0np0\n");
  }
  void program(const std::string& name) {
    put("usr/bin/" + name, "#!/bin/sh\n");
    fs::permissions(fs::path(folder_.path()) / "usr/bin" / name, fs::perms::owner_all);
  }
  fs::path root() const { return folder_.path(); }

  Options options;

 private:
  kvlane::test::TemporaryFolder folder_;
};

Row row_of(const Diagnosis& diagnosis, const std::string& check) {
  for (const Row& row : diagnosis.rows) {
    if (row.check == check) return row;
  }
  FAIL("no check ", check);
  return {};
}

void complains(const MachineModel& machine, const std::string& check, Verdict verdict,
               const std::string& found, const std::string& mend) {
  const Row row = row_of(diagnose(machine.options), check);
  CHECK_MESSAGE(row.verdict == verdict, check, ": ", std::string(to_string(row.verdict)));
  CHECK_MESSAGE(row.found.find(found) != std::string::npos, check, ": ", row.found);
  CHECK_MESSAGE(row.mend.find(mend) != std::string::npos, check, ": ", row.mend);
}

bool possible(const MachineModel& machine, Path path) {
  return diagnose(machine.options).obstacle(path) == nullptr;
}

}  // namespace

TEST_CASE("a machine that is well set up: every path is open, nothing is to mend") {
  MachineModel machine;
  // Shaping needs root, which nothing else does.
  machine.put("proc/self/status", "CapEff:\t000001ffffffffff\nCpus_allowed_list:\t0-15,32\n");
  const Diagnosis diagnosis = diagnose(machine.options);
  for (const Path path : kPaths) CHECK(diagnosis.obstacle(path) == nullptr);
  for (const Row& row : diagnosis.rows) {
    CHECK_MESSAGE((row.verdict == Verdict::ok || row.verdict == Verdict::skipped), row.check, ": ",
                  row.found);
    CHECK(row.mend.empty());
  }
  CHECK(row_of(diagnosis, "processors").found == "17 may be used (0-15,32)");
  CHECK(row_of(diagnosis, "memory").found == "94 GiB of 125 GiB available");
  CHECK(row_of(diagnosis, "shared memory").found == "memfd; /dev/shm of 128 MiB");
  CHECK(row_of(diagnosis, "interface enp1s0np0").found == "up, 100 Gbit/s, MTU 9000");
  CHECK(row_of(diagnosis, "rdma mlx5_0/1").found ==
        "4: ACTIVE, 100 Gb/sec (4X EDR), Ethernet, enp1s0np0 with MTU 9000 (paths of 4096), GID 3 "
        "(10.77.0.1)");
  CHECK(row_of(diagnosis, "gid mlx5_0/1/1").verdict == Verdict::skipped);
  CHECK(row_of(diagnosis, "gid mlx5_0/1/3").found == "10.77.0.1, RoCE v2, enp1s0np0");
  CHECK(row_of(diagnosis, "GPU").found == "2 x NVIDIA L20, driver 535.54.03");
  CHECK(row_of(diagnosis, "NIC to GPU memory").found == "nvidia_peermem");
}

TEST_CASE("what TCP and shared memory stumble over") {
  MachineModel machine;
  machine.put("proc/self/status", "CapEff:\t0\nCpus_allowed_list:\t3\n");
  complains(machine, "processors", Verdict::bad, "1 may be used (3)", "taskset");
  complains(machine, "link shaping", Verdict::bad, "not root", "sudo");
  machine.put("proc/self/status", "CapEff:\t0\nCpus_allowed_list:\t0-7\n");
  machine.put("sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n");
  complains(machine, "processors", Verdict::bad, "quota is 1.5", "docker update --cpus");
  machine.put("proc/sys/net/ipv4/tcp_slow_start_after_idle", "1\n");
  complains(machine, "tcp_slow_start_after_idle", Verdict::bad, "1",
            "sysctl -w net.ipv4.tcp_slow_start_after_idle=0");
  machine.put("proc/sys/net/core/wmem_max", "212992\n");
  complains(machine, "socket buffers", Verdict::bad, "wmem_max 208 KiB",
            "sysctl -w net.core.wmem_max=16777216");
  machine.put("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
  machine.put("sys/devices/system/clocksource/clocksource0/available_clocksource",
              "hpet kvm-clock\n");
  complains(machine, "clock", Verdict::bad, "hpet", "echo kvm-clock > /sys/devices");
  machine.put("sys/kernel/mm/transparent_hugepage/shmem_enabled", "always advise [never] deny\n");
  complains(machine, "huge pages", Verdict::bad, "in shared memory: never",
            "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled");
  CHECK(possible(machine, Path::tcp));  // slower, not impossible

  machine.interface("lo", "0x8", "down", "65536", "");
  complains(machine, "loopback", Verdict::bad, "down", "ip link set lo up");
  CHECK_FALSE(possible(machine, Path::tcp));
  CHECK_FALSE(possible(machine, Path::shm));
  machine.interface("lo", "0x9", "unknown", "65536", "");
  CHECK(possible(machine, Path::tcp));
  machine.put("proc/sys/kernel/osrelease", "5.10.0-26-amd64\n");
  complains(machine, "kernel", Verdict::bad, "expected 5.11", "apt-get");
  CHECK_FALSE(possible(machine, Path::tcp));
  machine.put("proc/sys/kernel/osrelease", "6.1.0\n");
  machine.put("proc/sys/vm/memfd_noexec", "2\n");
  complains(machine, "shared memory", Verdict::bad, "memfd is refused", "vm.memfd_noexec=1");
  CHECK_FALSE(possible(machine, Path::shm));
  machine.put("proc/sys/vm/memfd_noexec", "1\n");
  machine.put("sys/fs/cgroup/system.slice/memory.max", "536870912\n");
  complains(machine, "memory", Verdict::bad, "the container may have 512 MiB", "--memory 4096m");
  CHECK_FALSE(possible(machine, Path::tcp));
  machine.options.pool_bytes = 1 << 20;
  CHECK(possible(machine, Path::tcp));
}

TEST_CASE("what RDMA stumbles over") {
  MachineModel machine;
  const std::string limits = "Max locked memory         8388608              8388608       bytes\n";
  machine.put("proc/self/limits", limits);
  complains(machine, "memlock", Verdict::bad, "8.0 MiB; a role registers 1.0 GiB", "ulimit -l");
  CHECK_FALSE(possible(machine, Path::rdma));
  CHECK(possible(machine, Path::tcp));
  // The capability counts, but not in a user namespace.
  machine.put("proc/self/status", "CapEff:\t0000000000004000\nCpus_allowed_list:\t0-7\n");
  CHECK(row_of(diagnose(machine.options), "memlock").verdict == Verdict::ok);
  machine.put("proc/self/uid_map", "0 1000 1\n");
  CHECK(row_of(diagnose(machine.options), "memlock").verdict == Verdict::bad);
  machine.options.pool_bytes = 4 << 20;
  CHECK(possible(machine, Path::rdma));

  machine.put(kPort + "state", "1: DOWN\n");
  complains(machine, "rdma mlx5_0/1", Verdict::bad, "1: DOWN", "ip link set enp1s0np0 up");
  CHECK_FALSE(possible(machine, Path::rdma));
  machine.put(kPort + "state", "4: ACTIVE\n");
  machine.gid(3, "fe80:0000:0000:0000:0e42:a1ff:fe00:0002", "RoCE v2");
  complains(machine, "rdma mlx5_0/1", Verdict::bad, "no GID of RoCE v2",
            "ip addr add ADDRESS/24 dev enp1s0np0");
  machine.gid(5, "2001:0db8:0000:0000:0000:0000:0000:0001", "RoCE v2");
  CHECK(possible(machine, Path::rdma));  // IPv6 where there is nothing else
  machine.put("sys/class/net/enp1s0np0/mtu", "1500\n");
  CHECK(row_of(diagnose(machine.options), "rdma mlx5_0/1").found.find("paths of 1024") !=
        std::string::npos);
  machine.put(kPort + "link_layer", "InfiniBand\n");
  CHECK(row_of(diagnose(machine.options), "rdma mlx5_0/1").verdict == Verdict::ok);
  machine.remove("dev/infiniband");
  complains(machine, "verbs device", Verdict::missing, "no /dev/infiniband", "modprobe ib_uverbs");
  CHECK_FALSE(possible(machine, Path::rdma));
  machine.put("dev/infiniband/uverbs0", "");
  machine.remove("etc/libibverbs.d");
  complains(machine, "verbs in this build", Verdict::missing, "driver", "ibverbs-providers");
  machine.options.built_with_rdma = false;
  complains(machine, "verbs in this build", Verdict::missing, "none", "libibverbs-dev");
  machine.remove("sys/class/infiniband");
  complains(machine, "rdma devices", Verdict::missing, "none",
            "rdma link add rxe0 type rxe netdev enp1s0np0");
  complains(machine, "perftest", Verdict::skipped, "no RDMA device", "");
}

TEST_CASE("what CUDA stumbles over") {
  MachineModel machine;
  machine.remove("usr/lib");
  complains(machine, "GPU", Verdict::bad, "no libcuda.so.1", "libcuda1");
  machine.remove("dev/nvidiactl");
  complains(machine, "GPU", Verdict::bad, "no /dev/nvidiactl", "nvidia-modprobe");
  machine.remove("proc/modules");
  complains(machine, "NIC to GPU memory", Verdict::missing, "host memory",
            "modprobe nvidia_peermem");
  machine.put(
      "proc/driver/nvidia/version",
      "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n");
  CHECK(row_of(diagnose(machine.options), "NIC to GPU memory").found == "dma-buf");
  CHECK(row_of(diagnose(machine.options), "GPU").found.find("driver 580.65.06") !=
        std::string::npos);
  machine.remove("proc/driver");
  complains(machine, "GPU", Verdict::missing, "no NVIDIA GPU", "");
  machine.put("sys/bus/pci/devices/0000:17:00.0/vendor", "0x10de\n");
  machine.put("sys/bus/pci/devices/0000:17:00.0/class", "0x030200\n");
  complains(machine, "GPU", Verdict::missing, "no driver", "nvidia-driver");
  CHECK_FALSE(possible(machine, Path::cuda));
  machine.options.built_with_cuda = false;
  complains(machine, "CUDA in this build", Verdict::missing, "no", "-DKVLANE_CUDA=ON");
  CHECK(possible(machine, Path::tcp));
}

TEST_CASE(
    "a folder without a machine, and files full of garbage: no exception, nothing printed that "
    "a terminal obeys") {
  kvlane::test::TemporaryFolder empty("doctor_empty");
  Options options;
  options.root = empty.path();
  options.search = ":.:relative:/usr/bin";
  const Diagnosis nothing = diagnose(options);
  for (const Path path : kPaths) CHECK(nothing.obstacle(path) != nullptr);

  std::mt19937_64 random(7);
  const std::string texts[] = {"",
                               "\n",
                               std::string(1 << 20U, '9'),
                               "-1",
                               "0x",
                               ": : :",
                               "9223372036854775808 kB",
                               "\033[2Jboo\x07",
                               "[",
                               "]a[",
                               "1-",
                               "0-99999999999",
                               "4-1",
                               ",,,",
                               "1:2",
                               std::string(3, '\0'),
                               "Cpus_allowed_list: 0-1048577",
                               "MemTotal: 99999999999999999 kB\nMemAvailable: -5 kB",
                               "Max locked memory",
                               "Max locked memory  x y z",
                               "tmpfs /dev/shm tmpfs size=k",
                               "tmpfs /dev/shm tmpfs size=99999999999999999999k",
                               "0::",
                               "::",
                               "0::/../../..",
                               "."};
  for (int round = 0; round < 60; ++round) {
    MachineModel machine;
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(machine.root())) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    for (const fs::path& file : files) {
      const auto draw = random() % (std::size(texts) + 4);
      if (draw < std::size(texts)) {
        std::ofstream(file, std::ios::binary) << texts[draw];
      } else if (draw == std::size(texts)) {
        fs::remove(file);
        fs::create_directory(file);  // where a file was expected
      } else if (draw == std::size(texts) + 1) {
        std::string noise(300, '\0');
        for (char& c : noise) c = static_cast<char>(random());
        std::ofstream(file, std::ios::binary) << noise;
      }
    }
    for (const Row& row : diagnose(machine.options).rows) {
      for (const std::string* text : {&row.check, &row.found, &row.mend}) {
        CHECK(text->size() < 1000);
        CHECK(std::all_of(text->begin(), text->end(), [](char c) { return c >= ' ' && c <= '~'; }));
      }
    }
  }
}

TEST_CASE("sizes in words") {
  CHECK(size_text(0) == "0 B");
  CHECK(size_text(512 << 10) == "512 KiB");
  CHECK(size_text((std::int64_t{3} << 30) / 2) == "1.5 GiB");
}

}  // namespace kvlane::live::doctor
