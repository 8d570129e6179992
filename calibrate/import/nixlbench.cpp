// NIXLBench's printed table: a row a block and batch size, columns at least two blanks apart. The
// time of a block is its size over the bandwidth, whose unit stands in the header.

#include <fmt/format.h>

#include <optional>
#include <string>

#include "calibrate/import/formats.h"
#include "calibrate/import/sample_maker.h"
#include "calibrate/import/tool_text.h"

namespace kvlane::calibrate {
namespace {

struct Columns {
  std::size_t count = 0;
  std::optional<std::size_t> block, batch, rate;
  double unit = 0;  // bytes a second
};

Columns columns_of(const std::vector<Word>& header) {
  Columns columns;
  columns.count = header.size();
  for (std::size_t c = 0; c < header.size(); ++c) {
    const std::string& name = header[c].text;
    if (name == "Block Size (B)") columns.block = c;
    if (name == "Batch Size") columns.batch = c;
    if (!name.starts_with("B/W (")) continue;
    columns.rate = c;
    columns.unit = name == "B/W (GB/Sec)"    ? 1e9
                   : name == "B/W (GiB/Sec)" ? 1073741824.0
                   : name == "B/W (MiB/Sec)" ? 1048576.0
                   : name == "B/W (MB/Sec)"  ? 1e6
                                             : 0;
    if (columns.unit == 0) {
      throw InputError(header[c].place, fmt::format("`{}`", name),
                       "expected B/W in GB/Sec, GiB/Sec, MB/Sec or MiB/Sec");
    }
  }
  if (!columns.block || !columns.batch || !columns.rate) {
    throw InputError(header.front().place, "a header without Block Size (B), Batch Size or B/W",
                     "expected NIXLBench's table");
  }
  return columns;
}

void read(const std::string& path, std::string_view text, const ImportOptions& options,
          Imported& out) {
  SampleMaker make(path, "", "", options, out);
  std::optional<Columns> columns;
  bool any = false;
  for (const std::vector<Word>& words : words_of_lines(text, path, 2)) {
    if (words.empty()) continue;
    make.row(words.front().place.line);
    if (words.front().text.starts_with("Block Size")) {
      columns = columns_of(words);
      continue;
    }
    const char first = words.front().text.front();
    if (!columns || first < '0' || first > '9') continue;
    if (words.size() != columns->count) {
      throw InputError(words.front().place, fmt::format("{} numbers", words.size()),
                       fmt::format("expected {} as in the header", columns->count));
    }
    const std::int64_t block = whole_number(words[*columns->block]);
    const std::int64_t batch = whole_number(words[*columns->batch]);
    const double rate = positive_number(words[*columns->rate]) * columns->unit;
    make.add(options.machine, fmt::format("nixlbench batch {}", batch), "kv_transfer", {block, 1},
             "", static_cast<double>(block) / rate);
    any = true;
  }
  if (!any) {
    throw InputError({path, 1, 1}, "no row of results", "expected the table that nixlbench prints");
  }
}

}  // namespace

ImportFormat nixlbench_format() {
  return {"nixlbench", "the table that nixlbench prints", false, read};
}

}  // namespace kvlane::calibrate
