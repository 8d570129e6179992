// What cannot be read is named with file, line and column; a unit is never guessed.

#include "tests/unit/calibrate/import_support.h"

using namespace kvlane;
using namespace kvlane::test;

namespace {

void check_error(const char* format, const std::string& path, const std::string& text,
                 const std::string& beginning) {
  const std::string message = import_error(format, path, text);
  CAPTURE(message);
  CAPTURE(beginning);
  const bool begins = message.find(beginning) == 0;
  CHECK(begins);
}

const std::string kGemm = "m,n,k,latency_ms\n1,256,256,0.01\n";

std::string gemm_with(const std::string& row) { return kGemm + row + '\n'; }

}  // namespace

TEST_CASE("every class of broken row") {
  const std::string path = "d/gemm_bf16_h100_sxm.csv";
  const auto fails = [&](const std::string& text, const std::string& beginning) {
    check_error("aiconfigurator", path, text, path + beginning);
  };
  fails("", ":1:1: an empty file; ");
  fails("m,n,latency_ms\n1,2,3\n", ":1:1: no column `k`; found m, n, latency_ms");
  fails(gemm_with("1,256,256"), ":3:1: 3 fields; expected 4");
  fails(gemm_with("1,256,256,0.01,9"), ":3:1: 5 fields; expected 4");
  fails(gemm_with("1,256,many,0.01"), ":3:7: `many` in column `k`; ");
  fails(gemm_with("1,256,0.5,0.01"), ":3:7: `0.5` in column `k`; ");
  fails(gemm_with("0,256,256,0.01"), ":3:1: `0` in column `m`; ");
  fails(gemm_with("1,256,256,0"), ":3:11: `0` in column `latency_ms`; expected a number above");
  fails(gemm_with("1,256,256,-0.01"), ":3:11: `-0.01` in column `latency_ms`; ");
  fails(gemm_with("1,256,256,nan"), ":3:11: `nan` in column `latency_ms`; ");
  fails(gemm_with("1,256,256,inf"), ":3:11: `inf` in column `latency_ms`; ");
  fails(gemm_with("1,256,256,"), ":3:11: `` in column `latency_ms`; ");
  fails(gemm_with("1,256,\"256,0.01"), ":3:7: a quote that never ends; ");
  fails(gemm_with("1,256,256,5e-324"), ":3:1: a time of ");  // in seconds it is 0
  CHECK(import_error("aiconfigurator", path, gemm_with("2,256,256,0.01")) == "no error");
}

TEST_CASE("every format refuses a table of another kind") {
  for (const calibrate::ImportFormat& format : calibrate::import_formats()) {
    CAPTURE(format.name);
    const std::string message = import_error(format.name, "some.csv", "apples,pears\n1,2\n");
    CAPTURE(message);
    CHECK(message.find("some.csv") == 0);
    CHECK(import_error(format.name, "some.csv", "") != "no error");
  }
}

TEST_CASE("file names that have to say the machine, the type or the model") {
  check_error("aiconfigurator", "gemm_h100_sxm.csv", kGemm,
              "gemm_h100_sxm.csv: a file name without a data type; ");
  check_error("aiconfigurator", "gemm_bf16_.csv", kGemm,
              "gemm_bf16_.csv: a file name without a GPU; ");
  check_error("llmservingsim", "kernel_dense_RTX4090_Other-7B_tp1.csv", "layer,tokens,time_us\n",
              "kernel_dense_RTX4090_Other-7B_tp1.csv: a file name without GPU, known model");
  check_error("vidur", "net_h100_dgx.csv",
              "num_workers,devices_per_node,rank,size_bytes,median_ms\n",
              "net_h100_dgx.csv: a file name without an operation; ");
  check_error("frontier", "a800.csv", "n_q_head,tp\n", "a800.csv: a file name without a GPU; ");
  check_error("llmcompass", "other.csv", "1, 2\n", "other.csv: a file of no known table; ");
}

TEST_CASE("a machine is never empty") {
  check_error("vidur", "net__all_reduce.csv",
              "num_workers,devices_per_node,rank,size_bytes,median_ms\n2,2,0,8,0.1\n",
              "net__all_reduce.csv:2:1: no machine; ");
  check_error("splitwise", "p.csv",
              "model,hardware,prompt_size,batch_size,token_size,prompt_time,token_time,"
              "tensor_parallel\nx,,1,1,1,1,1,1\n",
              "p.csv:2:1: no machine; ");
}

TEST_CASE("more ranks than heads") {
  check_error("frontier", "attention_h800_x.csv",
              "n_q_head,n_kv_head,tp,batch,prefill_chunk,kv_cache,prefill_ms\n"
              "8,1,8,1,32,0,0.01\n4,1,8,1,32,0,0.01\n",
              "attention_h800_x.csv:3:1: query_heads of prefill_attention: 0; ");
}

TEST_CASE("sizes that no sample file holds") {
  check_error("mooncake", "m.csv", "kv_mb,transfer_ms\n2000000000,1\n", "m.csv:2:1: ");
  check_error("aiconfigurator", "nccl.csv",
              "system,nccl_version,op,dtype,num_gpus,message_elems,latency_ms\n"
              "h100_sxm,2,all_reduce,half,2,1000000000000000,1\n",
              "nccl.csv:2:1: bytes of all_reduce: 2000000000000000; ");
}

TEST_CASE("transcribed rows in another unit than their column's") {
  check_error("tensorrt-llm", "t.csv",
              "gpu,precision,model,tp,batch,input_len,output_len,metric,value,unit\n"
              "H100,FP8,m,1,1,1,1,throughput_out,5,tok/min\n",
              "t.csv:2:20: `throughput_out` in `tok/min`; ");
  check_error("perftest-curves", "p.csv",
              "curve_id,metric,operation,link,message_bytes,value,unit\nc,bandwidth,w,l,8,5,GB/s\n",
              "p.csv:2:3: `bandwidth` in `GB/s`; ");
  check_error("l20", "l.csv",
              "gpu,kernel,shape,dtype,metric,value,unit,source\n"
              "L20,k,M=N=K=8,fp16,tflops,5,GFLOPS,s\n",
              "l.csv:2:29: `GFLOPS`; expected TFLOPS");
  check_error("llmcompass", "matmul_A100.csv", "1, 2, 3, 0.5us, 1Tflops\n",
              "matmul_A100.csv:1:9: `0.5us`; expected a time such as 0.19ms");
}

TEST_CASE("perftest without its unit, or not of one message") {
  const std::string row = "\n 2 5 1.0 1.0 1.0\n";
  const auto fails = [&](const std::string& text, const std::string& beginning) {
    check_error("perftest", "p.txt", text, "p.txt:" + beginning);
  };
  fails(" #bytes #iterations BW peak BW average MsgRate[Mpps]" + row, "1:2: a table without ");
  fails(" #bytes #iterations BW peak[KB/sec] BW average[KB/sec] MsgRate[Mpps]" + row,
        "1:2: a table without ");
  fails(" #bytes #iterations t_min t_max t_typical" + row, "1:2: a table without ");
  fails(" #bytes #iterations", "1:2: a table without ");
  fails("RDMA_Write Bidirectional BW Test\n", "1:1: a bidirectional test");
  fails("hello\n", "1:1: no row of results; ");
  const std::string header =
      " #bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]\n";
  fails(header, "1:1: no row of results; ");
  fails(header + " 2 5 1.0 1.0\n", "2:2: 4 numbers; expected 5");
  fails(header + " 2 5 1.0 0.00 1.0\n", "2:10: `0.00`; expected a number above zero");
  fails(header + " 2 5 1.0 fast 1.0\n", "2:10: `fast`; ");
  fails(header + " 2.5 5 1.0 1.0 1.0\n", "2:2: `2.5`; expected a whole number");
  fails(" Number of qps : none\n" + header + row, "1:18: `none`; ");
}

TEST_CASE("perftest's JSON") {
  const auto fails = [&](const std::string& text, const std::string& beginning) {
    check_error("perftest", "p.json", text, "p.json:" + beginning);
  };
  fails("{\n\"results\": {\n\"MsgSize\": 1,\n", "4:1: no JSON; ");
  fails("{\n\"results\": {\n\"MsgSize\": }}", "3:12: no JSON; ");
  fails(std::string("{\n\"a\": 1}\0]", 11), "2:8: a zero byte; ");
  fails("{}", "1:1: no number above zero in results.MsgSize; ");
  fails("{\"results\": 5}", "1:2: no number above zero in results.MsgSize; ");
  fails("{\"results\": {\n\"MsgSize\": 0}}", "2:1: no number above zero in results.MsgSize; ");
  fails("{\"results\": {\n\"MsgSize\": 1.5}}", "2:1: 1.5 in results.MsgSize; ");
  fails("{\"results\": {\n\"MsgSize\": 1}}", "1:2: no number above zero in results.t_avg; ");
  fails("{\"results\": {\"MsgSize\": 1,\n\"MsgRate\": -1}}",
        "2:1: no number above zero in results.MsgRate; ");
  fails("{\"test_info\": {\n\"test\": \"RDMA_Write_Bidirectional_BW_Test\"}, \"results\": {}}",
        "2:1: a bidirectional test");
  fails("{\"results\": {\"MsgSize\": 1e999}}", "1:1: a number beyond a double's range; ");
}

TEST_CASE("nixlbench's table") {
  const auto fails = [&](const std::string& text, const std::string& beginning) {
    check_error("nixlbench", "n.txt", text, "n.txt:" + beginning);
  };
  fails("Block Size (B)   Batch Size   B/W (furlongs/Sec)\n", "1:31: `B/W (furlongs/Sec)`; ");
  fails("Block Size (B)   Batch Size   Avg Lat. (us)\n", "1:1: a header without ");
  fails("starting\n", "1:1: no row of results; ");
  const std::string header = "Block Size (B)   Batch Size   B/W (GB/Sec)\n";
  fails(header + "4096  1\n", "2:1: 2 numbers; expected 3");
  fails(header + "4096  1  0.000000\n", "2:10: `0.000000`; expected a number above zero");
  fails(header + "0.5  1  1.0\n", "2:1: `0.5`; expected a whole number");
}
