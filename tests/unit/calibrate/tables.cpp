// Tables of others as samples: units, shapes, errors with their places, and the rules that set
// artefacts aside. Rows are invented; expected values are computed by hand.

#include <doctest/doctest.h>

#include <string>

#include "../gpu_support.h"
#include "calibrate/import/artefacts.h"
#include "calibrate/import/import.h"
#include "sim/base/input_error.h"

using namespace kvlane;
using namespace kvlane::calibrate;

namespace {

std::vector<Sample> read(const char* format, const std::string& path, const std::string& text) {
  Imported out;
  ImportOptions options;
  if (!find_format(format)->names_machine) options = {"m", "s", "l"};
  find_format(format)->read(path, text, options, out);
  return out.samples;
}

std::string error_of(const char* format, const std::string& path, const std::string& text) {
  try {
    read(format, path, text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("aiconfigurator: milliseconds, the key before the query, elements of two bytes") {
  const auto gemm =
      read("aiconfigurator", "x/gemm_bf16_h100_sxm.csv", "m,n,k,latency_ms\n16,2048,4096,0.25\n");
  REQUIRE(gemm.size() == 1);
  CHECK(gemm[0].machine == "H100-SXM");
  CHECK(gemm[0].shape == std::vector<std::int64_t>{16, 2048, 4096});
  CHECK(gemm[0].seconds == doctest::Approx(0.25e-3));
  const auto decode =
      read("aiconfigurator", "attn_decode_l40s.csv",
           "framework,kernel,kv_dtype,batch,kv_len,num_q_heads,num_kv_heads,latency_ms\n"
           "vllm-1,fa,fp8,2,1023,32,8,0.5\n");
  CHECK(decode[0].shape == std::vector<std::int64_t>{2, 1024, 32, 8, 128});
  CHECK(decode[0].dtype == "fp8");
  const auto reduce = read("aiconfigurator", "nccl.csv",
                           "system,nccl_version,op,dtype,num_gpus,message_elems,latency_ms\n"
                           "a100_sxm,2,all_reduce,half,4,1000,0.02\n");
  CHECK(reduce[0].shape == std::vector<std::int64_t>{2000, 4});
}

TEST_CASE("engines and links: throughput, rates and their units") {
  const auto batch =
      read("tensorrt-llm", "t.csv",
           "gpu,precision,model,tp,batch,input_len,output_len,metric,value,unit,source\n"
           "H100,FP8,LLaMA 7B,2,10,128,100,throughput_out_per_gpu,250,tok/s,x\n");
  // 10 x 100 tokens at 2 x 250 a second.
  CHECK(batch[0].seconds == doctest::Approx(2.0));
  CHECK(batch[0].shape == std::vector<std::int64_t>{10, 128, 100, 2});
  const char* header = " #bytes #iterations BW peak[%s] BW average[%s] MsgRate[Mpps]\n";
  const auto table = [&](const std::string& unit) {
    std::string text = header;
    for (std::size_t at = text.find("%s"); at != std::string::npos; at = text.find("%s")) {
      text.replace(at, 2, unit);
    }
    return text + " 1048576 1000 200.0 100.0 0.1\n";
  };
  // MB of perftest are 2^20 bytes.
  CHECK(read("perftest", "p", table("MB/sec"))[0].seconds == doctest::Approx(0.01));
  CHECK(read("perftest", "p", table("Gb/sec"))[0].seconds ==
        doctest::Approx(1048576.0 * 8 / 100e9));
  CHECK(error_of("perftest", "p", table("furlongs")).starts_with("p:1:"));
  const auto nixl =
      read("nixlbench", "n",
           "Block Size (B)   Batch Size   B/W (GB/Sec)   Avg Lat. (us)\n4096   8   2.0   16.4\n");
  CHECK(nixl[0].seconds == doctest::Approx(4096 / 2e9));
}

TEST_CASE("broken rows are named with file, line and column") {
  const char* path = "gemm_bf16_h100_sxm.csv";
  CHECK(error_of("aiconfigurator", path, "m,n,k\n1,2,3\n")
            .starts_with("gemm_bf16_h100_sxm.csv:1:1: no column"));
  CHECK(error_of("aiconfigurator", path, "m,n,k,latency_ms\n1,2,3\n")
            .starts_with("gemm_bf16_h100_sxm.csv:2:1: 3 fields"));
  for (const char* time : {"-1", "0", "nan", "inf", "", "1x"}) {
    CAPTURE(time);
    const std::string text = std::string("m,n,k,latency_ms\n1,2,3,1\n1,2,3,") + time + "\n";
    CHECK(error_of("aiconfigurator", path, text).starts_with("gemm_bf16_h100_sxm.csv:3:7: "));
  }
  CHECK(error_of("aiconfigurator", path, "m,n,k,latency_ms\n1.5,2,3,1\n")
            .starts_with("gemm_bf16_h100_sxm.csv:2:1: "));
  CHECK(error_of("aiconfigurator", path, "m,n,k,latency_ms\n1,2,3,\"1\n").find("quote") !=
        std::string::npos);
  CHECK(error_of("aiconfigurator", "what.csv", "m,n,k,latency_ms\n1,2,3,1\n")
            .starts_with("what.csv: "));
}

TEST_CASE("artefacts: each rule at its border") {
  GpuSpec gpu = test::round_gpu();  // 1 TB/s
  gpu.l2 = Bytes(1'000'000);
  const auto decode = [](std::int64_t kv, double seconds) {
    Sample sample;
    sample.machine = "round";
    sample.kernel = "decode_attention";
    sample.shape = {1, kv, 1, 1, 100};
    sample.dtype = "bf16";
    sample.seconds = seconds;
    return sample;
  };
  // 2 x 100 x 2 B a key: 1.2 MB are 3000 keys.
  std::vector<Sample> samples{decode(3000, 1e-3), decode(3001, 1e-3), decode(5000, 1.9e-6),
                              decode(6000, 1.0), decode(6000, 2.0)};
  samples.push_back(decode(10, 1.0));
  samples.back().machine = "unknown";
  for (const auto& [m, seconds] :
       {std::pair(16, 1.51), std::pair(32, 1.0), std::pair(64, 1.4), std::pair(128, 1.0)}) {
    samples.push_back(decode(1, seconds));
    samples.back().kernel = "gemm";
    samples.back().shape = {m, 2048, 2048};
  }
  const auto counts = set_artefacts_aside(samples, {gpu});
  CHECK(samples[0].set_aside == "l2_resident");
  CHECK(samples[1].set_aside.empty());
  CHECK(samples[2].set_aside == "l2_resident");  // 2 MB in 1.9 us: faster than DRAM
  CHECK(samples[3].set_aside.empty());
  CHECK(samples[4].set_aside == "duplicate");
  CHECK(samples[5].set_aside.empty());
  CHECK(samples[6].set_aside == "throttled");  // 1.51 s against 1 s of the next larger m
  CHECK(samples[8].set_aside.empty());
  CHECK(counts.at("l2_resident") == 2);
}
