// Single measurements of an L20 and its like, as transcribed (spot values): those whose shape says
// what was run. "M=N=K=12544" at so many TFLOPS is a GEMM; the other rows name their kernels only.

#include <charconv>
#include <string>

#include "calibrate/import/csv_table.h"
#include "calibrate/import/formats.h"
#include "calibrate/import/sample_maker.h"

namespace kvlane::calibrate {
namespace {

void read(const std::string& path, std::string_view text, const ImportOptions& options,
          Imported& out) {
  const CsvTable table(text, path);
  SampleMaker make("L20 spot values", "facts", options, out);
  const auto at = [&](const char* name) { return table.column(name); };
  const auto gpu = at("gpu"), kernel = at("kernel"), shape = at("shape"), dtype = at("dtype"),
             metric = at("metric"), value = at("value"), unit = at("unit");
  constexpr std::string_view kCube = "M=N=K=";
  for (std::size_t r = 0; r < table.size(); ++r) {
    const std::string& sizes = table.text(r, shape);
    std::int64_t edge = 0;
    if (sizes.starts_with(kCube)) {
      const char* first = sizes.data() + kCube.size();
      const auto [end, error] = std::from_chars(first, sizes.data() + sizes.size(), edge);
      if (error != std::errc() || edge < 1 || edge > 1'000'000) edge = 0;
    }
    if (edge == 0 || table.text(r, metric) != "tflops") {
      make.skip("rows that do not say a whole shape");
      continue;
    }
    if (table.text(r, unit) != "TFLOPS") {
      table.fail(r, unit, "`" + table.text(r, unit) + "`", "expected TFLOPS");
    }
    const auto cube = static_cast<double>(edge);
    make.add(machine_name(table.text(r, gpu)), table.text(r, kernel), "gemm", {edge, edge, edge},
             table.text(r, dtype) == "bf16" ? "bf16" : "fp16",
             2 * cube * cube * cube / (table.positive(r, value) * 1e12));
  }
}

}  // namespace

ImportFormat l20_format() { return {"l20", "spot values of single kernels (CSV)", true, read}; }

}  // namespace kvlane::calibrate
