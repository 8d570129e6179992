// LLMServingSim's profiles (casys-kaist/LLMServingSim, MIT): kernels of vLLM 0.19 in microseconds,
// and the older v0 tables (layers in nanoseconds, prefill attention in milliseconds).

#include <algorithm>
#include <string>

#include "calibrate/import/csv_table.h"
#include "calibrate/import/formats.h"
#include "calibrate/import/sample_maker.h"

namespace kvlane::calibrate {
namespace {

constexpr const char* kSource = "LLMServingSim 5daddb2";
constexpr const char* kVariant = "vllm-0.19";

struct Model {
  const char* name;
  std::int64_t hidden, ffn, heads, kv_heads, head_width, vocabulary;
};
constexpr Model kModels[] = {{"Llama-3.1-8B", 4096, 14336, 32, 8, 128, 128256},
                             {"Qwen3-32B", 5120, 25600, 64, 8, 128, 151936}};

struct File {
  std::string machine;
  Model model;  // of one rank
};

// kernel_attention_RTX4090_Llama-3.1-8B_tp1.csv
File file_of(const std::string& path, std::string_view before) {
  const std::string_view name = file_name(path);
  const std::string gpu = between(name, before, "_");
  for (const Model& model : kModels) {
    const std::string ranks = between(name, '_' + std::string(model.name) + "_tp", ".csv");
    if (gpu.empty() || ranks.size() != 1 || ranks[0] < '1' || ranks[0] > '8') continue;
    const std::int64_t tp = ranks[0] - '0';
    Model rank = model;
    rank.ffn /= tp;
    rank.heads /= tp;
    rank.kv_heads /= tp;
    rank.vocabulary /= tp;
    return {machine_name(gpu), rank};
  }
  throw InputError({path, 0, 0}, "a file name without GPU, known model and ranks",
                   "expected " + std::string(before) +
                       "GPU_MODEL_tpN.csv, MODEL Llama-3.1-8B or "
                       "Qwen3-32B");
}

void read_attention(const CsvTable& table, const std::string& path, SampleMaker& make) {
  const File file = file_of(path, "kernel_attention_");
  const auto chunk = table.column("prefill_chunk"), cached = table.column("kv_prefill"),
             decodes = table.column("n_decode"), length = table.column("kv_decode"),
             time = table.column("time_us");
  const std::int64_t q = file.model.heads;
  const std::int64_t kv = file.model.kv_heads;
  const std::int64_t d = file.model.head_width;
  for (std::size_t r = 0; r < table.size(); ++r) {
    make.row(table.line(r));
    const std::int64_t c = table.integer(r, chunk, 0);
    const std::int64_t p = table.integer(r, cached, 0);
    const std::int64_t n = table.integer(r, decodes, 0);
    const std::int64_t l = table.integer(r, length, 0);
    const double seconds = table.positive(r, time) / 1e6;
    if ((c == 0 && n == 0) || (n > 0 && l == 0)) {
      table.fail(r, chunk, "a row without tokens", "expected a chunk or decodes");
    }
    if (n == 0) {
      make.add_prefill(file.machine, kVariant, 1, c, p, {q, kv, d}, "bf16", seconds);
    } else if (c == 0) {
      make.add(file.machine, kVariant, "decode_attention", {n, l, q, kv, d}, "bf16", seconds);
    } else {
      make.add(file.machine, kVariant, "mixed_attention", {c, p, n, l, q, kv, d}, "bf16", seconds);
    }
  }
}

// An operation of a layer over `m` tokens: the GEMMs by their shapes, the others by the bytes that
// they read and write (2-byte elements). False for one that is neither.
bool add_operation(const std::string& name, const File& file, const std::string& variant,
                   std::int64_t m, double seconds, SampleMaker& make) {
  const Model& l = file.model;
  const auto gemm = [&](std::int64_t n, std::int64_t k) {
    make.add(file.machine, variant + ' ' + name, "gemm", {m, n, k}, "bf16", seconds);
    return true;
  };
  const auto moves = [&](std::int64_t elements) {
    make.add(file.machine, variant + ' ' + name, "elementwise", {2 * elements}, "bf16", seconds);
    return true;
  };
  const std::int64_t query = l.heads * l.head_width;
  const std::int64_t key = l.kv_heads * l.head_width;
  if (name == "qkv_proj") return gemm(query + 2 * key, l.hidden);
  if (name == "q_proj") return gemm(query, l.hidden);
  if (name == "k_proj" || name == "v_proj") return gemm(key, l.hidden);
  if (name == "o_proj") return gemm(l.hidden, query);
  if (name == "gate_up_proj") return gemm(2 * l.ffn, l.hidden);
  if (name == "gate_proj" || name == "up_proj") return gemm(l.ffn, l.hidden);
  if (name == "down_proj") return gemm(l.hidden, l.ffn);
  if (name == "lm_head") return gemm(l.vocabulary, l.hidden);
  if (name == "act_fn") return moves(3 * m * l.ffn);
  if (name == "rope" || name == "rotary_emb") return moves(2 * m * (query + key));
  if (name.find("norm") != std::string::npos && name.find("qk") == std::string::npos) {
    return moves(2 * m * l.hidden);
  }
  return false;
}

void read_dense(const CsvTable& table, const std::string& path, SampleMaker& make) {
  const bool sequences = table.has("sequences");
  const File file = file_of(path, sequences ? "kernel_per_sequence_" : "kernel_dense_");
  const auto layer = table.column("layer");
  const auto tokens = table.column(sequences ? "sequences" : "tokens");
  const auto time = table.column("time_us");
  for (std::size_t r = 0; r < table.size(); ++r) {
    make.row(table.line(r));
    const std::string& name = table.text(r, layer);
    const std::int64_t m = table.integer(r, tokens);
    const double seconds = table.positive(r, time) / 1e6;
    if (name == "sampler") {
      make.add(file.machine, kVariant, "sampler", {m, file.model.vocabulary}, "bf16", seconds);
    } else if (!add_operation(name, file, kVariant, m, seconds, make)) {
      make.skip("operations of another kind");
    }
  }
}

// v0_layers: a column an operation.
void read_v0_layers(const CsvTable& table, const std::string& path, SampleMaker& make) {
  const File file = file_of(path, "v0_layers_");
  const auto tokens = table.column("tokens");
  for (std::size_t c = 0; c < table.columns().size(); ++c) {
    std::string name = table.columns()[c];
    if (c == tokens || !name.ends_with("_ns")) continue;
    name.resize(name.size() - 3);
    for (std::size_t r = 0; r < table.size(); ++r) {
      make.row(table.line(r));
      const double nanoseconds = table.number(r, c);
      if (nanoseconds == 0) {
        make.skip("operations below the profiler's resolution");
      } else if (!add_operation(name, file, "v0", table.integer(r, tokens),
                                table.positive(r, c) / 1e9, make)) {
        make.skip("operations of another kind");
      }
    }
  }
}

void read_v0_attention(const CsvTable& table, const std::string& path, SampleMaker& make) {
  const std::string machine = machine_name(between(file_name(path), "v0_prefill_attention_", "_"));
  const auto heads = table.column("n_q_head_model"), kv_heads = table.column("n_kv_head_model"),
             ranks = table.column("tp"), batch = table.column("batch"),
             chunk = table.column("prefill_chunk"), cached = table.column("kv_cache"),
             time = table.column("prefill_median_ms");
  for (std::size_t r = 0; r < table.size(); ++r) {
    make.row(table.line(r));
    const std::int64_t tp = table.integer(r, ranks);
    const std::int64_t q = table.integer(r, heads) / tp;
    const std::int64_t kv = std::max<std::int64_t>(table.integer(r, kv_heads) / tp, 1);
    const std::int64_t b = table.integer(r, batch);
    const std::int64_t c = table.integer(r, chunk);
    const std::int64_t p = table.integer(r, cached, 0);
    make.add_prefill(machine, "v0 vllm", b, c, p, {q, kv, 128}, "bf16",
                     table.positive(r, time) / 1e3);
  }
}

void read(const std::string& path, std::string_view text, const ImportOptions& options,
          Imported& out) {
  const CsvTable table(text, path);
  SampleMaker make(path, kSource, "MIT", options, out);
  if (table.has("n_decode")) {
    read_attention(table, path, make);
  } else if (table.has("prefill_median_ms")) {
    read_v0_attention(table, path, make);
  } else if (table.has("layer")) {
    read_dense(table, path, make);
  } else {
    read_v0_layers(table, path, make);
  }
}

}  // namespace

ImportFormat llmservingsim_format() {
  return {"llmservingsim", "attention with prefixes and mixed batches, layers (CSV)", true, read};
}

}  // namespace kvlane::calibrate
