// Whole engines: splitwise-sim (Azure, MIT), TensorRT-LLM's performance page (Apache-2.0) as
// transcribed, LLM-Inference-Bench (Argonne, BSD-3-Clause).

#include <string>

#include "calibrate/import/csv_table.h"
#include "calibrate/import/formats.h"
#include "calibrate/import/sample_maker.h"

namespace kvlane::calibrate {
namespace {

// prompt_time and token_time in milliseconds; rows are repeats. Two ranks over 64 sequences report
// less than over 32: broken upstream.
void read_splitwise(const std::string& path, std::string_view text, const ImportOptions& options,
                    Imported& out) {
  const CsvTable table(text, path);
  SampleMaker make(path, "splitwise-sim 8f99e7d", "MIT", options, out);
  const auto at = [&](const char* name) { return table.column(name); };
  const auto model = at("model"), hardware = at("hardware"), prompt = at("prompt_size"),
             batch = at("batch_size"), tokens = at("token_size"), first = at("prompt_time"),
             gap = at("token_time"), ranks = at("tensor_parallel");
  for (std::size_t r = 0; r < table.size(); ++r) {
    make.row(table.line(r));
    const std::string machine = machine_name(table.text(r, hardware));
    const std::int64_t b = table.integer(r, batch);
    const std::int64_t p = table.integer(r, prompt);
    const std::int64_t tp = table.integer(r, ranks);
    const char* rule = tp == 2 && b == 64 ? "broken_upstream" : "";
    Sample& whole = make.add(machine, "splitwise", "serving_prefill", {b, p, tp}, "fp16",
                             table.positive(r, first) / 1e3);
    whole.model = table.text(r, model);
    whole.set_aside = rule;
    Sample& step =
        make.add(machine, "splitwise", "serving_step", {b, p, table.integer(r, tokens), tp}, "fp16",
                 table.positive(r, gap) / 1e3);
    step.model = table.text(r, model);
    step.set_aside = rule;
  }
}

// Output tokens a second of a static batch (of the instance or a GPU), or the first token's
// latency.
void read_tensorrt(const std::string& path, std::string_view text, const ImportOptions& options,
                   Imported& out) {
  const CsvTable table(text, path);
  SampleMaker make(path, "TensorRT-LLM 138f96d", "Apache-2.0", options, out);
  const auto at = [&](const char* name) { return table.column(name); };
  const auto gpu = at("gpu"), precision = at("precision"), model = at("model"), tp = at("tp"),
             batch = at("batch"), input = at("input_len"), output = at("output_len"),
             metric = at("metric"), value = at("value"), unit = at("unit");
  for (std::size_t r = 0; r < table.size(); ++r) {
    make.row(table.line(r));
    const std::string machine = machine_name(table.text(r, gpu));
    const char* dtype = table.text(r, precision) == "FP8" ? "fp8" : "fp16";
    const std::string& what = table.text(r, metric);
    const std::int64_t b = table.integer(r, batch);
    const std::int64_t ranks = table.integer(r, tp);
    const bool of_gpu = what == "throughput_out_per_gpu";
    if (what == "first_token_latency" && table.text(r, unit) == "ms") {
      make.add(machine, "trtllm-0.5", "serving_prefill", {b, table.integer(r, input), ranks}, dtype,
               table.positive(r, value) / 1e3)
          .model = table.text(r, model);
    } else if ((of_gpu || what == "throughput_out") && table.text(r, unit) == "tok/s") {
      const double rate = table.positive(r, value) * (of_gpu ? static_cast<double>(ranks) : 1);
      const double tokens = static_cast<double>(b) * static_cast<double>(table.integer(r, output));
      make.add(machine, "trtllm-0.6", "serving_batch",
               {b, table.integer(r, input), table.integer(r, output), ranks}, dtype, tokens / rate)
          .model = table.text(r, model);
    } else {
      table.fail(r, metric, "`" + what + "` in `" + table.text(r, unit) + "`",
                 "expected throughput_out, throughput_out_per_gpu in tok/s or first_token_latency "
                 "in ms");
    }
  }
}

void read_bench_batches(const CsvTable& table, SampleMaker& make) {
  const auto at = [&](const char* name) { return table.column(name); };
  const auto gpu = at("gpu"), gpus = at("num_gpus"), framework = at("framework"),
             model = at("model"), length = at("in_out_len"), batch = at("batch"),
             latency = at("latency_s");
  for (std::size_t r = 0; r < table.size(); ++r) {
    make.row(table.line(r));
    const std::int64_t n = table.integer(r, length);
    make.add(machine_name(table.text(r, gpu)), table.text(r, framework), "serving_batch",
             {table.integer(r, batch), n, n, table.integer(r, gpus)}, "fp16",
             table.positive(r, latency))
        .model = table.text(r, model);
  }
}

// Some rows end before the last column, the latency of the whole, which is not read.
void read_bench_first_tokens(const CsvTable& table, SampleMaker& make) {
  const auto at = [&](const char* name) { return table.column(name); };
  const auto gpu = at("Hardware"), gpus = at("Num of Hardware"), framework = at("Framework"),
             model = at("Model"), input = at("Input Length"), batch = at("Batch Size"),
             first = at("TTFT Latency");
  for (std::size_t r = 0; r < table.size(); ++r) {
    make.row(table.line(r));
    if (table.text(r, gpu).find("Nvidia") == std::string::npos) {
      make.skip("machines of other makers");
      continue;
    }
    make.add(machine_name(table.text(r, gpu)), table.text(r, framework), "serving_prefill",
             {table.integer(r, batch), table.integer(r, input), table.integer(r, gpus)}, "fp16",
             table.positive(r, first))
        .model = table.text(r, model);
  }
}

void read_bench(const std::string& path, std::string_view text, const ImportOptions& options,
                Imported& out) {
  SampleMaker make(path, "LLM-Inference-Bench 4211f5d", "BSD-3-Clause", options, out);
  if (text.substr(0, text.find('\n')).find("TTFT Latency") != std::string_view::npos) {
    read_bench_first_tokens(CsvTable(text, path, 1), make);
  } else {
    read_bench_batches(CsvTable(text, path), make);
  }
}

}  // namespace

ImportFormat splitwise_format() {
  return {"splitwise", "prompt and token times of whole engines (CSV)", true, read_splitwise};
}
ImportFormat tensorrt_llm_format() {
  return {"tensorrt-llm", "static batches and first tokens (CSV)", true, read_tensorrt};
}
ImportFormat llm_inference_bench_format() {
  return {"llm-inference-bench", "static batches of several engines (CSV)", true, read_bench};
}

}  // namespace kvlane::calibrate
