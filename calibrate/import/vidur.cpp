// Vidur's profiles (microsoft/vidur, MIT): medians of the operations of a layer, of collectives,
// and one old attention table.

#include <algorithm>
#include <string>

#include "calibrate/import/csv_table.h"
#include "calibrate/import/formats.h"
#include "calibrate/import/sample_maker.h"

namespace kvlane::calibrate {
namespace {

constexpr const char* kSource = "vidur 7d47513";

struct Layer {  // of one tensor-parallel rank
  std::int64_t tokens, heads, kv_heads, hidden, ffn, head_width;
};

struct Operation {
  const char* column;
  bool gemm;
  // GEMM: n and k; else: 2-byte elements that are read and written.
  std::int64_t (*first)(const Layer&);
  std::int64_t (*second)(const Layer&);
};

constexpr std::int64_t none(const Layer&) { return 0; }

// Gate and up are one GEMM in models with a gated FFN, and so are Q, K and V.
constexpr Operation kOperations[] = {
    {"attn_pre_proj_ms", true,
     [](const Layer& l) { return (l.heads + 2 * l.kv_heads) * l.head_width; },
     [](const Layer& l) { return l.hidden; }},
    {"attn_post_proj_ms", true, [](const Layer& l) { return l.hidden; },
     [](const Layer& l) { return l.heads * l.head_width; }},
    {"mlp_up_proj_ms", true, [](const Layer& l) { return 2 * l.ffn; },
     [](const Layer& l) { return l.hidden; }},
    {"mlp_down_proj_ms", true, [](const Layer& l) { return l.hidden; },
     [](const Layer& l) { return l.ffn; }},
    // Norms read and write the hidden state.
    {"input_layernorm_ms", false, [](const Layer& l) { return 2 * l.tokens * l.hidden; }, none},
    {"post_attention_layernorm_ms", false, [](const Layer& l) { return 2 * l.tokens * l.hidden; },
     none},
    // The rotary embedding reads and writes queries and keys.
    {"attn_rope_ms", false,
     [](const Layer& l) { return 2 * l.tokens * (l.heads + l.kv_heads) * l.head_width; }, none},
    // SwiGLU reads gate and up, writes one.
    {"mlp_act_ms", false, [](const Layer& l) { return 3 * l.tokens * l.ffn; }, none},
    // The residual add reads two, writes one.
    {"add_ms", false, [](const Layer& l) { return 3 * l.tokens * l.hidden; }, none},
};

void read_layers(const CsvTable& table, const std::string& path, SampleMaker& make) {
  const std::string gpu = between(file_name(path), "mlp_", "_");
  if (gpu.empty()) {
    throw InputError({path, 0, 0}, "a file name without a GPU", "expected mlp_GPU_MODEL.csv");
  }
  const std::string machine = machine_name(gpu);
  const auto heads = table.column("n_head"), kv_heads = table.column("n_kv_head"),
             hidden = table.column("n_embd"), ffn = table.column("n_expanded_embd"),
             ranks = table.column("num_tensor_parallel_workers"),
             tokens = table.column("num_tokens");
  for (const Operation& operation : kOperations) {
    const auto time = table.column(operation.column);
    const std::string name(operation.column, std::string_view(operation.column).size() - 3);
    for (std::size_t r = 0; r < table.size(); ++r) {
      make.row(table.line(r));
      const std::int64_t tp = table.integer(r, ranks);
      const Layer layer{table.integer(r, tokens),
                        table.integer(r, heads) / tp,
                        std::max<std::int64_t>(table.integer(r, kv_heads) / tp, 1),
                        table.integer(r, hidden),
                        table.integer(r, ffn) / tp,
                        table.integer(r, hidden) / table.integer(r, heads)};
      if (table.blank(r, time) || table.number(r, time) == 0) {
        make.skip("operations below the profiler's resolution");
      } else if (operation.gemm) {
        make.add(machine, name, "gemm",
                 {layer.tokens, operation.first(layer), operation.second(layer)}, "fp16",
                 table.positive(r, time) / 1e3);
      } else {
        make.add(machine, name, "elementwise", {2 * operation.first(layer)}, "fp16",
                 table.positive(r, time) / 1e3);
      }
    }
  }
}

// A row a rank; the ranks of one operation end together, the first stands for it.
void read_network(const CsvTable& table, const std::string& path, SampleMaker& make) {
  const std::string_view name = file_name(path);
  const bool reduce = name.find("all_reduce") != std::string_view::npos;
  if (!reduce && name.find("send_recv") == std::string_view::npos) {
    throw InputError({path, 0, 0}, "a file name without an operation",
                     "expected net_GPU_NODE_all_reduce.csv or ..._send_recv.csv");
  }
  const std::string machine = machine_name(between(name, "net_", "_"));
  const std::string node(name.substr(0, name.size() - 4));
  const auto ranks = table.column("num_workers"), rank = table.column("rank"),
             bytes = table.column("size_bytes"), time = table.column("median_ms"),
             per_node = table.column("devices_per_node");
  for (std::size_t r = 0; r < table.size(); ++r) {
    make.row(table.line(r));
    if (table.integer(r, rank, 0) != 0) {
      make.skip("further ranks of one operation");
    } else if (table.integer(r, per_node) != table.integer(r, ranks)) {
      make.skip("collectives over several nodes");
    } else {
      make.add(machine, "nccl " + node, reduce ? "all_reduce" : "send_recv",
               {table.size_in(r, bytes), table.integer(r, ranks)}, "fp16",
               table.positive(r, time) / 1e3);
    }
  }
}

void read_attention(const CsvTable& table, const std::string& path, SampleMaker& make) {
  const std::string machine = machine_name(between(file_name(path), "attention_", "_"));
  const auto at = [&](const char* name) { return table.column(name); };
  const auto heads = at("n_q_head"), kv_heads = at("n_kv_head"), hidden = at("n_embd"),
             ranks = at("num_tensor_parallel_workers"), batch = at("batch_size"),
             chunk = at("prefill_chunk_size"), cached = at("kv_cache_size"),
             prefill = at("attn_prefill_median_ms"), decode = at("attn_decode_median_ms");
  for (std::size_t r = 0; r < table.size(); ++r) {
    make.row(table.line(r));
    const std::int64_t tp = table.integer(r, ranks);
    const std::int64_t q = table.integer(r, heads) / tp;
    const std::int64_t kv = table.integer(r, kv_heads) / tp;
    const std::int64_t width = table.integer(r, hidden) / table.integer(r, heads);
    const std::int64_t c = table.integer(r, chunk, 0);
    const auto time = c > 0 ? prefill : decode;
    if (table.blank(r, time) || table.number(r, time) == 0) {
      make.skip("attention below the profiler's resolution");
    } else if (c == 0) {
      make.add(machine, "old FlashAttention", "decode_attention",
               {table.integer(r, batch), table.integer(r, cached), q, kv, width}, "fp16",
               table.positive(r, time) / 1e3);
    } else {
      make.add_prefill(machine, "old FlashAttention", table.integer(r, batch), c,
                       table.integer(r, cached, 0), {q, kv, width}, "fp16",
                       table.positive(r, time) / 1e3);
    }
  }
}

void read(const std::string& path, std::string_view text, const ImportOptions& options,
          Imported& out) {
  const CsvTable table(text, path);
  SampleMaker make(path, kSource, "MIT", options, out);
  if (table.has("size_bytes")) {
    read_network(table, path, make);
  } else if (table.has("prefill_chunk_size")) {
    read_attention(table, path, make);
  } else {
    read_layers(table, path, make);
  }
}

}  // namespace

ImportFormat vidur_format() {
  return {"vidur", "layer operations, collectives, attention (CSV)", true, read};
}

}  // namespace kvlane::calibrate
