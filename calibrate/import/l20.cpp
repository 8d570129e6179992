// Single measurements of an L20 and its like, as transcribed (spot values): those that say what was
// run. "M=N=K=12544" at so many TFLOPS is a GEMM; "Nq/Nkv=1/8192" in milliseconds is attention
// whose batch, heads and width stand in the source ("B=1 H=32 D=512"): decode with one query,
// prefill where it is causal over equal lengths. The other rows name their kernels only.

#include <charconv>
#include <string>

#include "calibrate/import/csv_table.h"
#include "calibrate/import/formats.h"
#include "calibrate/import/sample_maker.h"

namespace kvlane::calibrate {
namespace {

// The whole number behind `name` in `text` ("H=32"), 0 where there is none up to a million.
std::int64_t number_after(std::string_view text, std::string_view name) {
  const auto at = text.find(name);
  if (at == std::string_view::npos) return 0;
  const char* first = text.data() + at + name.size();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(first, text.data() + text.size(), value);
  return error == std::errc() && value >= 1 && value <= 1'000'000 ? value : 0;
}

struct Attention {
  std::int64_t batch = 0, queries = 0, keys = 0, heads = 0, width = 0;
  bool whole() const { return batch > 0 && queries > 0 && keys > 0 && heads > 0 && width > 0; }
};

Attention attention_of(const std::string& shape, const std::string& source) {
  Attention found{number_after(source, "(B="), number_after(shape, "Nq/Nkv="), 0,
                  number_after(source, " H="), number_after(source, " D=")};
  const auto slash = shape.rfind('/');
  if (slash != std::string::npos) found.keys = number_after(shape.substr(slash), "/");
  return found;
}

void read(const std::string& path, std::string_view text, const ImportOptions& options,
          Imported& out) {
  const CsvTable table(text, path);
  SampleMaker make(path, "L20 spot values", "facts", options, out);
  const auto at = [&](const char* name) { return table.column(name); };
  const auto gpu = at("gpu"), kernel = at("kernel"), shape = at("shape"), dtype = at("dtype"),
             metric = at("metric"), value = at("value"), unit = at("unit");
  const auto source = at("source");
  for (std::size_t r = 0; r < table.size(); ++r) {
    make.row(table.line(r));
    const std::string machine = machine_name(table.text(r, gpu));
    const char* type = table.text(r, dtype) == "bf16" ? "bf16" : "fp16";
    const std::string& what = table.text(r, kernel);
    const std::int64_t edge = number_after(table.text(r, shape), "M=N=K=");
    const Attention run = attention_of(table.text(r, shape), table.text(r, source));
    const bool causal = what.find("causal") != std::string::npos && run.queries == run.keys &&
                        what.find("non-causal") == std::string::npos;
    const bool decode = what.find("decode") != std::string::npos && run.queries == 1;
    if (edge > 0 && table.text(r, metric) == "tflops") {
      if (table.text(r, unit) != "TFLOPS") {
        table.fail(r, unit, "`" + table.text(r, unit) + "`", "expected TFLOPS");
      }
      const auto cube = static_cast<double>(edge);
      make.add(machine, what, "gemm", {edge, edge, edge}, type,
               2 * cube * cube * cube / (table.positive(r, value) * 1e12));
    } else if (run.whole() && (causal || decode) && table.text(r, metric) == "latency") {
      if (table.text(r, unit) != "ms") {
        table.fail(r, unit, "`" + table.text(r, unit) + "`", "expected ms");
      }
      make.add(machine, what, decode ? "decode_attention" : "prefill_attention",
               {run.batch, run.keys, run.heads, run.heads, run.width}, type,
               table.positive(r, value) / 1e3);
    } else {
      make.skip("rows that do not say a whole shape");
    }
  }
}

}  // namespace

ImportFormat l20_format() { return {"l20", "spot values of single kernels (CSV)", true, read}; }

}  // namespace kvlane::calibrate
