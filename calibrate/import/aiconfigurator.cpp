// aiconfigurator's kernel tables and serving points (ai-dynamo/aiconfigurator, Apache-2.0), as CSV.
// Which table it is shows in its header. `kv_len` counts the keys before the query: the kernel
// attends to one more. `message_elems` are elements of two bytes.

#include <string>

#include "calibrate/import/csv_table.h"
#include "calibrate/import/formats.h"
#include "calibrate/import/sample_maker.h"

namespace kvlane::calibrate {
namespace {

constexpr std::int64_t kHeadWidth = 128;  // of the tables that are kept

bool is_fp8(const std::string& word) { return word.starts_with("fp8"); }

// "gemm_bf16_h100_sxm.csv" -> "h100_sxm": the machine stands in the file's name only.
std::string machine_of_name(const std::string& path, std::string_view before) {
  const std::string gpu = between(file_name(path), before, ".csv");
  if (gpu.empty()) {
    throw InputError({path, 0, 0}, "a file name without a GPU",
                     "expected " + std::string(before) + "GPU.csv");
  }
  return machine_name(gpu);
}

void read_gemm(const CsvTable& table, const std::string& path, SampleMaker& make) {
  const bool fp8 = file_name(path).find("_fp8_") != std::string_view::npos;
  if (!fp8 && file_name(path).find("_bf16_") == std::string_view::npos) {
    throw InputError({path, 0, 0}, "a file name without a data type",
                     "expected gemm_bf16_GPU.csv or gemm_fp8_GPU.csv");
  }
  const std::string machine = machine_of_name(path, fp8 ? "_fp8_" : "_bf16_");
  const std::string variant = machine == "A100-80-SXM" ? "sglang-0.5.10" : "vllm-0.24.0";
  const auto m = table.column("m");
  const auto n = table.column("n");
  const auto k = table.column("k");
  const auto time = table.column("latency_ms");
  for (std::size_t r = 0; r < table.size(); ++r) {
    make.row(table.line(r));
    make.add(machine, variant, "gemm",
             {table.integer(r, m), table.integer(r, n), table.integer(r, k)}, fp8 ? "fp8" : "bf16",
             table.positive(r, time) / 1e3);
  }
}

void read_attention(const CsvTable& table, const std::string& path, SampleMaker& make) {
  const bool decode = table.has("kv_len");
  const std::string machine = machine_of_name(path, decode ? "attn_decode_" : "attn_prefill_");
  const auto framework = table.column("framework");
  const auto kernel = table.column("kernel");
  const auto dtype = table.column("kv_dtype");
  const auto batch = table.column("batch");
  const auto length = table.column(decode ? "kv_len" : "seq_len");
  const auto queries = table.column("num_q_heads");
  const auto kvs = table.column("num_kv_heads");
  const auto time = table.column("latency_ms");
  for (std::size_t r = 0; r < table.size(); ++r) {
    make.row(table.line(r));
    const std::string variant = table.text(r, framework) + ' ' + table.text(r, kernel);
    make.add(machine, variant, decode ? "decode_attention" : "prefill_attention",
             {table.integer(r, batch), table.integer(r, length, decode ? 0 : 1) + (decode ? 1 : 0),
              table.integer(r, queries), table.integer(r, kvs), kHeadWidth},
             is_fp8(table.text(r, dtype)) ? "fp8" : "bf16", table.positive(r, time) / 1e3);
  }
}

void read_collectives(const CsvTable& table, SampleMaker& make) {
  const bool nccl = table.has("nccl_version");
  const auto system = table.column("system");
  const auto version = table.column(nccl ? "nccl_version" : "version");
  const auto what = table.column(nccl ? "op" : "kernel");
  const auto dtype = table.column("dtype");
  const auto gpus = table.column("num_gpus");
  const auto elements = table.column("message_elems");
  const auto time = table.column("latency_ms");
  for (std::size_t r = 0; r < table.size(); ++r) {
    make.row(table.line(r));
    const std::string& word = table.text(r, dtype);
    if (word != "half" && word != "bfloat16" && word != "float16") {
      make.skip("collectives of other than 2-byte elements");
      continue;
    }
    const std::string& op = nccl ? table.text(r, what) : "all_reduce";
    const char* kernel = op == "all_reduce"                       ? "all_reduce"
                         : op == "all_gather"                     ? "all_gather"
                         : op == "reduce_scatter"                 ? "reduce_scatter"
                         : op == "alltoall" || op == "all_to_all" ? "all_to_all"
                                                                  : nullptr;
    if (kernel == nullptr) {
      make.skip("collectives of an unknown kind");
      continue;
    }
    const std::string variant = nccl ? "nccl-" + table.text(r, version)
                                     : table.text(r, what) + ' ' + table.text(r, version);
    make.add(machine_name(table.text(r, system)), variant, kernel,
             {2 * table.size_in(r, elements), table.integer(r, gpus)}, "bf16",
             table.positive(r, time) / 1e3);
  }
}

// Mean gaps between tokens under closed-loop load; `batch_size` is the concurrency.
void read_serving(const CsvTable& table, SampleMaker& make) {
  const auto at = [&](const char* name) { return table.column(name); };
  const auto backend = at("backend"), version = at("backend_version"), model = at("model_path"),
             system = at("system"), precision = at("precision"), mode = at("mode"), isl = at("isl"),
             osl = at("osl"), quant = at("gemm_quant_mode"), batch = at("batch_size"),
             tp = at("tp_size"), pp = at("pp_size"), tpot = at("silicon_tpot_ms");
  for (std::size_t r = 0; r < table.size(); ++r) {
    make.row(table.line(r));
    if (table.text(r, mode) != "agg") {
      make.skip("disaggregated serving points");
    } else if (!table.blank(r, pp) && table.integer(r, pp) != 1) {
      make.skip("pipeline-parallel serving points");
    } else if (table.blank(r, tpot) || table.number(r, tpot) == 0) {
      make.skip("serving points without a token time");
    } else {
      const bool fp8 = is_fp8(table.text(r, precision)) || is_fp8(table.text(r, quant));
      make.add(machine_name(table.text(r, system)),
               table.text(r, backend) + ' ' + table.text(r, version), "serving_step",
               {table.integer(r, batch), table.integer(r, isl), table.integer(r, osl),
                table.integer(r, tp)},
               fp8 ? "fp8" : "bf16", table.positive(r, tpot) / 1e3)
          .model = table.text(r, model);
    }
  }
}

void read(const std::string& path, std::string_view text, const ImportOptions& options,
          Imported& out) {
  const CsvTable table(text, path);
  SampleMaker make(path, "aiconfigurator 095f58a", "Apache-2.0", options, out);
  if (table.has("silicon_tpot_ms")) {
    read_serving(table, make);
  } else if (table.has("message_elems")) {
    read_collectives(table, make);
  } else if (table.has("kv_len") || table.has("seq_len")) {
    read_attention(table, path, make);
  } else {
    read_gemm(table, path, make);
  }
}

}  // namespace

ImportFormat aiconfigurator_format() {
  return {"aiconfigurator", "GEMM, attention, collectives, serving points (CSV)", true, read};
}

}  // namespace kvlane::calibrate
