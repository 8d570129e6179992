// Links: what perftest and NIXLBench print, and transcribed curves.

#include "tests/unit/calibrate/import_support.h"

using namespace kvlane;
using namespace kvlane::test;

namespace {

const calibrate::ImportOptions kMine{"cx9", "lab 3", "CC0-1.0"};

void check_tool(const char* format, const char* file, const std::vector<Expected>& expected) {
  CAPTURE(file);
  check_samples(import_fixture(format, std::string(format) + '/' + file, kMine), "lab 3", "CC0-1.0",
                expected);
}

}  // namespace

// MB/sec are 2^20 bytes: 2 B at 4 MiB/s, 1 MiB at 1000 MiB/s.
TEST_CASE("perftest: bandwidth in MB/sec, with its queue pairs") {
  const char* test = "perftest RDMA_Write_BW_Test";
  check_tool("perftest", "write_bw.txt",
             {{"cx9", test, "nic_message", {2, 4}, "", 2.0 / (4 * 1048576)},
              {"cx9", test, "nic_message", {1048576, 4}, "", 1e-3}});
}

// 1000 B are 8000 bits; a column of CPU use follows.
TEST_CASE("perftest: bandwidth in Gb/sec") {
  check_tool("perftest", "write_bw_gbits.txt",
             {{"cx9", "perftest Send_BW_Test", "nic_message", {1000, 1}, "", 1e-6}});
}

TEST_CASE("perftest: two ports beside their sum, MiB/sec") {
  check_tool("perftest", "per_port.txt",
             {{"cx9", "perftest RDMA_Write_BW_Test", "nic_message", {1048576, 1}, "", 2e-3}});
}

TEST_CASE("perftest: latency, typical or average") {
  check_tool("perftest", "read_lat.txt",
             {{"cx9", "perftest RDMA_Read_Latency_Test", "nic_latency", {64}, "", 2.5e-6}});
  check_tool("perftest", "send_lat_duration.txt",
             {{"cx9", "perftest Send_Latency_Test", "nic_latency", {8}, "", 1.25e-6}});
}

// 2.5 million messages a second; the JSON's bandwidth has no unit.
TEST_CASE("perftest: --out_json") {
  check_tool("perftest", "write_bw.json",
             {{"cx9", "perftest RDMA_Write_BW_Test", "nic_message", {4096, 2}, "", 0.4e-6}});
  check_tool("perftest", "send_lat.json",
             {{"cx9", "perftest Send_Latency_Test", "nic_latency", {2}, "", 1.5e-6}});
}

TEST_CASE("perftest: several tests in one file") {
  const std::string table =
      "---\n RDMA_Write BW Test\n Number of qps   : 2\n---\n"
      " #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]\n"
      " 1000 5 0.00 8.00 1.0\n---\n";
  const std::string latency =
      " Send Latency Test\n #bytes #iterations t_avg[usec] tps average\n 64 5 2.5 4\n---\n";
  check_samples(import_text("perftest", "both.txt", table + latency, kMine), "lab 3", "CC0-1.0",
                {{"cx9", "perftest RDMA_Write_BW_Test", "nic_message", {1000, 2}, "", 1e-6},
                 {"cx9", "perftest Send_Latency_Test", "nic_latency", {64}, "", 2.5e-6}});
}

TEST_CASE("nixlbench: a worker's bandwidth") {
  check_tool("nixlbench", "pairwise.txt",
             {{"cx9", "nixlbench batch 1", "kv_transfer", {65536, 1}, "", 65536 / 8e9},
              {"cx9", "nixlbench batch 4", "kv_transfer", {131072, 1}, "", 131072 / 16e9}});
  check_tool("nixlbench", "many.txt",
             {{"cx9", "nixlbench batch 2", "kv_transfer", {65536, 1}, "", 65536 / 4e9}});
  check_tool("nixlbench", "early.txt",
             {{"cx9", "nixlbench batch 1", "kv_transfer", {1048576, 1}, "", 128e-6}});
}

TEST_CASE("perftest curves: time a message, and one way") {
  const auto imported = import_fixture("perftest-curves", "rdma/perftest_curves.csv");
  check_samples(imported, "perftest curves", "facts",
                {{"ib99", "ib_write_bw RC 1QP IB 99G", "nic_message", {1000, 1}, "", 1e-6},
                 {"ib99lat", "ib_write_lat RC", "nic_latency", {64}, "", 1.5e-6}});
  CHECK(imported.skipped == Skipped{{"percentiles of latency", 1}});
}

TEST_CASE("mooncake: whole KV caches over eight ports, blocks over EFA") {
  check_samples(import_fixture("mooncake", "rdma/mooncake_kv_transfer.csv"), "Mooncake 3b5a594",
                "Apache-2.0",
                {{"H800-8xCX7", "mooncake", "kv_transfer", {25'000'000, 8}, "", 0.5e-3}});
  const auto blocks = import_fixture("mooncake", "rdma/mooncake_efa_blocksize.csv");
  check_samples(blocks, "Mooncake 3b5a594", "Apache-2.0",
                {{"p9.48xlarge", "mooncake GPU-GPU", "kv_transfer", {65536, 1}, "", 1.024e-6}});
  CHECK(blocks.skipped == Skipped{{"blocks without a write rate", 1}});
}

TEST_CASE("pcie: between host and device") {
  const auto imported = import_fixture("pcie", "pcie/copies.csv");
  check_samples(imported, "host-device copies", "facts",
                {{"A10", "H2D pinned", "copy", {32'000'000}, "", 2e-3},
                 {"A10", "D2H pageable", "copy", {32'000'000}, "", 4e-3}});
  CHECK(imported.skipped == Skipped{{"copies within a device", 1}});
}
