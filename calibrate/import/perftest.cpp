// What the tools of perftest print (ib_write_bw, ib_read_lat, ...), as text or as --out_json. The
// text says its unit in the header: MB/sec there are 2^20 bytes, Gb/sec are 10^9 bits. The JSON
// does not say which of the two it has: its message rate (millions a second) is read instead.

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "calibrate/import/formats.h"
#include "calibrate/import/sample_maker.h"
#include "calibrate/import/tool_text.h"

namespace kvlane::calibrate {
namespace {

using Json = nlohmann::json;

// Column names hold blanks: "BW average[MB/sec]" is one.
std::vector<std::string> header_names(const std::vector<Word>& words) {
  std::vector<std::string> names;
  std::string pending;
  for (const Word& word : words) {
    const bool first_half = word.text == "BW" || word.text == "tps" || word.text.ends_with('%');
    if (first_half && pending.empty()) {
      pending = word.text + ' ';
      continue;
    }
    names.push_back(pending + word.text);
    pending.clear();
  }
  if (!pending.empty()) names.push_back(pending);
  return names;
}

struct Columns {
  std::size_t count = 0, value = 0;
  bool bandwidth = false;
  double unit = 0;  // bytes a second, or seconds
};

Columns columns_of(const std::vector<Word>& header) {
  const std::vector<std::string> names = header_names(header);
  Columns columns;
  columns.count = names.size();
  for (std::size_t c = 0; c < names.size(); ++c) {
    const std::string& name = names[c];
    if (name.starts_with("BW average")) {
      columns.bandwidth = true;
      columns.value = c;
      columns.unit = name == "BW average[MB/sec]" || name == "BW average[MiB/sec]" ? 1048576.0
                     : name == "BW average[Gb/sec]"                                ? 1e9 / 8
                                                                                   : 0;
    }
    const bool typical = name.starts_with("t_typical");
    if (typical || (name.starts_with("t_avg") && columns.value == 0)) {
      columns.value = c;
      columns.unit = name.ends_with("[usec]") ? 1e-6 : 0;
    }
  }
  if (columns.value == 0 || columns.unit == 0) {
    throw InputError(header.front().place,
                     "a table without BW average[MB/sec] or [Gb/sec], or "
                     "t_typical or t_avg[usec]",
                     "expected perftest's own header; a unit is never guessed");
  }
  return columns;
}

std::int64_t whole(const Word& word) {
  const double value = positive_number(word);
  if (value != static_cast<double>(static_cast<std::int64_t>(value)) || value > 1e15) {
    throw InputError(word.place, fmt::format("`{}`", word.text), "expected a whole number");
  }
  return static_cast<std::int64_t>(value);
}

void read_text(const std::string& path, std::string_view text, const ImportOptions& options,
               SampleMaker& make) {
  Columns columns;  // count 0: no header so far
  bool any = false;
  for (const std::vector<Word>& words : words_of_lines(text, path, 1)) {
    if (words.empty()) continue;
    if (words.front().text == "#bytes") {
      columns = columns_of(words);
      continue;
    }
    const char first = words.front().text.front();
    if (columns.count == 0 || first < '0' || first > '9') {
      if (words.front().text.starts_with("---") && any) columns = {};
      continue;
    }
    if (words.size() != columns.count) {
      throw InputError(words.front().place, fmt::format("{} numbers", words.size()),
                       fmt::format("expected {} as in the header", columns.count));
    }
    const std::int64_t bytes = whole(words[0]);
    const double value = positive_number(words[columns.value]);
    any = true;
    if (columns.bandwidth) {
      make.add(options.machine, "perftest", "nic_message", {bytes, 1}, "",
               static_cast<double>(bytes) / (value * columns.unit));
    } else {
      make.add(options.machine, "perftest", "nic_latency", {bytes}, "", value * columns.unit);
    }
  }
  if (!any) {
    throw InputError({path, 1, 1}, "no row of results", "expected the output of a perftest tool");
  }
}

double json_number(const Json& object, const char* key, const std::string& path) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number() || found->get<double>() <= 0) {
    throw InputError({path, 1, 1}, fmt::format("no number above zero in results.{}", key),
                     "expected perftest's --out_json");
  }
  return found->get<double>();
}

void read_json(const std::string& path, std::string_view text, const ImportOptions& options,
               SampleMaker& make) {
  const Json json = Json::parse(text, nullptr, false);
  const Json* results = nullptr;
  if (json.is_object() && json.contains("results")) results = &json["results"];
  if (results == nullptr || !(results->is_object() || results->is_array())) {
    throw InputError({path, 1, 1}, "no `results`", "expected perftest's --out_json");
  }
  const Json list = results->is_array() ? *results : Json::array({*results});
  if (list.empty()) throw InputError({path, 1, 1}, "empty `results`", "expected a result");
  for (const Json& result : list) {
    if (!result.is_object()) {
      throw InputError({path, 1, 1}, "a result that is no object",
                       "expected perftest's --out_json");
    }
    const double size = json_number(result, "MsgSize", path);
    if (size > 1e15) throw InputError({path, 1, 1}, "a message above 1e15 B", "expected a size");
    const auto bytes = static_cast<std::int64_t>(size);
    if (result.contains("MsgRate")) {
      make.add(options.machine, "perftest", "nic_message", {bytes, 1}, "",
               1 / (json_number(result, "MsgRate", path) * 1e6));
    } else {
      const char* key = result.contains("t_typical") ? "t_typical" : "t_avg";
      make.add(options.machine, "perftest", "nic_latency", {bytes}, "",
               json_number(result, key, path) / 1e6);
    }
  }
}

void read(const std::string& path, std::string_view text, const ImportOptions& options,
          Imported& out) {
  SampleMaker make("", "", options, out);
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') {
    read_json(path, text, options, make);
  } else {
    read_text(path, text, options, make);
  }
}

}  // namespace

ImportFormat perftest_format() {
  return {"perftest", "output of ib_write_bw and its like, text or --out_json", false, read};
}

}  // namespace kvlane::calibrate
