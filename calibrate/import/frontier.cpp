// Frontier's attention profiles (NetX-lab/Frontier, MIT), FlashInfer, medians in milliseconds. Head
// counts are the model's; a time of 0 says that the row is of the other kind.

#include <algorithm>
#include <string>

#include "calibrate/import/csv_table.h"
#include "calibrate/import/formats.h"
#include "calibrate/import/sample_maker.h"

namespace kvlane::calibrate {
namespace {

constexpr std::int64_t kHeadWidth = 128;  // of both models

void read(const std::string& path, std::string_view text, const ImportOptions& options,
          Imported& out) {
  const CsvTable table(text, path);
  SampleMaker make(path, "Frontier a4b22df", "MIT", options, out);
  const std::string gpu = between(file_name(path), "attention_", "_");
  if (gpu.empty()) {
    throw InputError({path, 0, 0}, "a file name without a GPU", "expected attention_GPU_MODEL.csv");
  }
  const std::string machine = machine_name(gpu);
  const bool shortened = table.has("tp");  // the other style of header
  const auto at = [&](const char* full, const char* brief) {
    return table.column(shortened ? brief : full);
  };
  const auto heads = at("n_q_head", "n_q_head"), kv_heads = at("n_kv_head", "n_kv_head"),
             ranks = at("num_tensor_parallel_workers", "tp"), batch = at("batch_size", "batch"),
             chunk = at("prefill_chunk_size", "prefill_chunk"),
             cached = at("kv_cache_size", "kv_cache"),
             prefill = at("attn_prefill_ms", "prefill_ms");
  const auto decode = shortened ? prefill : table.column("attn_decode_ms");
  for (std::size_t r = 0; r < table.size(); ++r) {
    make.row(table.line(r));
    const std::int64_t tp = table.integer(r, ranks);
    const std::int64_t q = table.integer(r, heads) / tp;
    const std::int64_t kv = std::max<std::int64_t>(table.integer(r, kv_heads) / tp, 1);
    const std::int64_t b = table.integer(r, batch);
    const std::int64_t c = table.integer(r, chunk, 0);
    const std::int64_t p = table.integer(r, cached, 0);
    const auto time = c > 0 ? prefill : decode;
    if (table.number(r, time) == 0) {
      make.skip("rows below the profiler's resolution");
    } else if (c > 0) {
      make.add_prefill(machine, "FlashInfer", b, c, p, {q, kv, kHeadWidth}, "bf16",
                       table.positive(r, time) / 1e3);
    } else {
      make.add(machine, "FlashInfer", "decode_attention",
               {b, table.integer(r, cached), q, kv, kHeadWidth}, "bf16",
               table.positive(r, time) / 1e3);
    }
  }
}

}  // namespace

ImportFormat frontier_format() {
  return {"frontier", "attention with prefixes, FlashInfer (CSV)", true, read};
}

}  // namespace kvlane::calibrate
