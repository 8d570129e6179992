// What a machine tells about itself, from files as Linux writes them.

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "../cli/temporary_folder.h"
#include "calibrate/measure/machine.h"

using namespace kvlane::calibrate;
namespace fs = std::filesystem;

namespace {

void put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("machine: names of processors become names of files") {
  CHECK(plain_name("Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz") == "Intel-Xeon-Gold-6338");
  CHECK(plain_name("AMD EPYC 7B13") == "AMD-EPYC-7B13");
  CHECK(plain_name("11th Gen Intel(R) Core(TM) i7-1165G7 @ 2.80GHz") ==
        "11th-Gen-Intel-Core-i7-1165G7");
  CHECK(plain_name("a/b \"c\"") == "a-b--c-");
  CHECK(plain_name("") == "CPU");
}

TEST_CASE("machine: proc and sys of a laptop") {
  const kvlane::test::TemporaryFolder folder("machine");
  const fs::path root = folder.path();
  put(root / "proc/cpuinfo",
      "processor\t: 0\nmodel name\t: AMD Ryzen 7 5800U\ncpu MHz\t\t: 1397.2\n\nprocessor\t: 1\n");
  put(root / "proc/meminfo", "MemTotal:       16318512 kB\nMemFree:  1 kB\n");
  put(root / "proc/sys/kernel/osrelease", "6.1.0-13-amd64\n");
  put(root / "proc/loadavg", "0.52 0.58 0.59 1/467 12345\n");
  const fs::path cache = root / "sys/devices/system/cpu/cpu0/cache";
  const char* const kinds[] = {"Data", "Instruction", "Unified", "Unified"};
  const char* const levels[] = {"1", "1", "2", "3"};
  const char* const sizes[] = {"32K", "32K", "512K", "16384K"};
  for (int i = 0; i < 4; ++i) {
    const fs::path index = cache / ("index" + std::to_string(i));
    put(index / "type", std::string(kinds[i]) + "\n");
    put(index / "level", std::string(levels[i]) + "\n");
    put(index / "size", std::string(sizes[i]) + "\n");
  }
  const fs::path clock = root / "sys/devices/system/cpu/cpu0/cpufreq";
  const Machine hidden = read_machine(8, root.string());
  CHECK(hidden.clock_state == "governor unknown, 1397.2 MHz");
  put(clock / "scaling_governor", "powersave\n");
  put(clock / "scaling_max_freq", "4505000\n");
  const Machine machine = read_machine(8, root.string());
  CHECK(machine.name == "AMD-Ryzen-7-5800U-x8");
  CHECK(machine.threads == 8);
  CHECK(machine.driver == "Linux 6.1.0-13-amd64");
  CHECK(machine.clock_state == "governor powersave, at most 4505 MHz");
  CHECK(machine.memory_bytes == 16'318'512LL * 1024);
  CHECK(machine.cache_bytes == 16LL << 20);
  CHECK(load_average(root.string()) == 0.52);
  put(root / "proc/self/task/10/schedstat", "7000000000 1500000000 12\n");
  put(root / "proc/self/task/11/schedstat", "1 500000000 1\n");
  CHECK(seconds_in_line(root.string()) == doctest::Approx(2));
}

TEST_CASE("machine: one that tells nothing") {
  const kvlane::test::TemporaryFolder folder("machine");
  const Machine machine = read_machine(3, folder.path());
  CHECK(machine.name == "CPU-x3");
  CHECK(machine.clock_state == "unknown");
  CHECK(machine.cache_bytes == 0);
  CHECK_FALSE(load_average(folder.path()).has_value());
  CHECK(seconds_in_line(folder.path()) == 0);
}
