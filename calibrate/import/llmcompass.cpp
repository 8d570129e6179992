// LLMCompass' measurements on an A100 (PrincetonUniversity/LLMCompass, BSD-3-Clause): tables
// without a header. matmul: "M, K, N, 0.19ms, 101Tflops"; softmax and layernorm: "rows, columns,
// 1e9 elements a second"; gelu: "elements, 1e9 elements a second".

#include <string>

#include "calibrate/import/csv_table.h"
#include "calibrate/import/formats.h"
#include "calibrate/import/sample_maker.h"

namespace kvlane::calibrate {
namespace {

constexpr const char* kMachine = "A100-80-SXM";

// "0.1900ms" as seconds.
double milliseconds(const CsvTable& table, std::size_t row, std::size_t column) {
  const std::string& cell = table.text(row, column);
  double value = 0;
  if (cell.ends_with("ms")) {
    const CsvTable number(cell.substr(0, cell.size() - 2) + "\n", "time", {"time"});
    if (number.size() == 1) value = number.number(0, 0);
  }
  if (value <= 0) table.fail(row, column, "`" + cell + "`", "expected a time such as 0.19ms");
  return value / 1e3;
}

void read_matmul(const CsvTable& table, SampleMaker& make) {
  for (std::size_t r = 0; r < table.size(); ++r) {
    make.row(table.line(r));
    make.add(kMachine, "cublas", "gemm",
             {table.integer(r, 0), table.integer(r, 2), table.integer(r, 1)}, "fp16",
             milliseconds(table, r, 3));
  }
}

// Every element is read and written once, two bytes each.
void read_elementwise(const CsvTable& table, const std::string& what, bool matrix,
                      SampleMaker& make) {
  const std::size_t rate = matrix ? 2 : 1;
  for (std::size_t r = 0; r < table.size(); ++r) {
    make.row(table.line(r));
    const std::int64_t elements =
        matrix ? table.integer(r, 0) * table.integer(r, 1) : table.size_in(r, 0);
    make.add(kMachine, what, "elementwise", {4 * elements}, "fp16",
             static_cast<double>(elements) / (table.positive(r, rate) * 1e9));
  }
}

void read(const std::string& path, std::string_view text, const ImportOptions& options,
          Imported& out) {
  SampleMaker make(path, "LLMCompass 2e015fd", "BSD-3-Clause", options, out);
  const std::string what(file_name(path).substr(0, file_name(path).find('_')));
  if (what == "matmul") {
    read_matmul(CsvTable(text, path, {"M", "K", "N", "latency", "rate"}), make);
  } else if (what == "softmax" || what == "layernorm") {
    read_elementwise(CsvTable(text, path, {"rows", "columns", "rate"}), what, true, make);
  } else if (what == "gelu") {
    read_elementwise(CsvTable(text, path, {"elements", "rate"}), what, false, make);
  } else if (what.starts_with("transformer")) {
    make.skip("whole layers");
  } else {
    throw InputError({path, 0, 0}, "a file of no known table",
                     "expected matmul_, softmax_, layernorm_, gelu_ or transformer_GPU.csv");
  }
}

}  // namespace

ImportFormat llmcompass_format() {
  return {"llmcompass", "matrix products and elementwise kernels of an A100 (CSV)", true, read};
}

}  // namespace kvlane::calibrate
