// What the tools of perftest print (ib_write_bw, ib_read_lat, ...), as text or as --out_json. The
// text says its unit in the header: MB/sec (MiB/sec since 2024) there are 2^20 bytes, Gb/sec are
// 10^9 bits. The JSON does not say which of the two it has: its message rate (millions a second) is
// read instead.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "calibrate/import/formats.h"
#include "calibrate/import/sample_maker.h"
#include "calibrate/import/tool_text.h"
#include "sim/scenario/json_places.h"
#include "sim/scenario/json_text.h"

namespace kvlane::calibrate {
namespace {

using Json = nlohmann::json;

// Column names hold blanks: "BW average[MB/sec]" is one.
std::vector<std::string> header_names(const std::vector<Word>& words) {
  std::vector<std::string> names;
  std::string pending;
  for (const Word& word : words) {
    const bool first_half = word.text == "BW" || word.text == "tps" || word.text == "MsgRate" ||
                            word.text.ends_with('%');
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

// What the lines above a table say about the test.
struct Test {
  std::string variant = "perftest";
  std::int64_t queue_pairs = 1;
};

// "RDMA_Write_BW_Test": sums of two directions are no message's time.
std::string variant_of(const std::string& title, const SourcePlace& place) {
  if (title.find("Bidirectional") != std::string::npos) {
    throw InputError(place, "a bidirectional test, which adds up two directions",
                     "expected a test of one");
  }
  return "perftest " + title;
}

void read_head(const std::vector<Word>& words, Test& test) {
  if (words.size() > 1 && words.back().text == "Test") {
    std::string title;
    for (const Word& word : words) title += (title.empty() ? "" : "_") + word.text;
    test = {variant_of(title, words.front().place), 1};
  }
  const bool qps = words.size() > 4 && words[0].text == "Number" && words[2].text == "qps";
  if (qps) test.queue_pairs = whole_number(words[4]);
}

void read_text(const std::string& path, std::string_view text, const ImportOptions& options,
               SampleMaker& make) {
  Columns columns;  // count 0: no table yet
  Test test;
  bool any = false;
  for (const std::vector<Word>& words : words_of_lines(text, path, 1)) {
    if (words.empty()) continue;
    make.row(words.front().place.line);
    if (words.front().text == "#bytes") {
      columns = columns_of(words);
      continue;
    }
    if (columns.count == 0) {
      read_head(words, test);
      continue;
    }
    const char first = words.front().text.front();
    if (first < '0' || first > '9') {
      if (words.front().text.starts_with("---")) columns = {};
      continue;
    }
    if (words.size() != columns.count) {
      throw InputError(words.front().place, fmt::format("{} numbers", words.size()),
                       fmt::format("expected {} as in the header", columns.count));
    }
    const std::int64_t bytes = whole_number(words[0]);
    const double value = positive_number(words[columns.value]);
    any = true;
    if (columns.bandwidth) {
      make.add(options.machine, test.variant, "nic_message", {bytes, test.queue_pairs}, "",
               static_cast<double>(bytes) / (value * columns.unit));
    } else {
      make.add(options.machine, test.variant, "nic_latency", {bytes}, "", value * columns.unit);
    }
  }
  if (!any) {
    throw InputError({path, 1, 1}, "no row of results", "expected the output of a perftest tool");
  }
}

// Of --out_json: one test, one size.
class Report {
 public:
  Report(std::string_view text, const std::string& path) : path_(path) {
    try {
      json_ = parse_json(text);
    } catch (const JsonFault& fault) {
      const SourcePlace place = place_of_byte(text, path, fault.byte);
      switch (fault.kind) {
        case JsonFault::Kind::zero_byte:
          throw InputError(place, "a zero byte", "expected JSON");
        case JsonFault::Kind::syntax:
          throw InputError(place, "no JSON", "expected perftest's --out_json");
        case JsonFault::Kind::range:
          throw InputError(place, "a number beyond a double's range", "expected a smaller one");
      }
    }
    places_ = json_places(text, path);
  }

  const Json* find(const std::string& group, const std::string& key) const {
    const auto object = json_.find(group);
    if (object == json_.end() || !object->is_object()) return nullptr;
    const auto found = object->find(key);
    return found == object->end() ? nullptr : &*found;
  }
  SourcePlace place(const std::string& key) const {
    const auto found = places_.find(key);
    return found == places_.end() ? SourcePlace{path_, 1, 1} : found->second;
  }
  double positive(const std::string& group, const std::string& key) const {
    const Json* value = find(group, key);
    if (value == nullptr || !value->is_number() || value->get<double>() <= 0) {
      throw InputError(place(value == nullptr ? group : group + '.' + key),
                       fmt::format("no number above zero in {}.{}", group, key),
                       "expected perftest's --out_json");
    }
    return value->get<double>();
  }
  std::int64_t whole(const std::string& group, const std::string& key) const {
    const double value = positive(group, key);
    if (value != std::floor(value) || value > 1e15) {
      throw InputError(place(group + '.' + key), fmt::format("{} in {}.{}", value, group, key),
                       "expected a whole number from 1 to 1e15");
    }
    return static_cast<std::int64_t>(value);
  }

 private:
  std::string path_;
  Json json_;
  JsonPlaces places_;
};

void read_json(const std::string& path, std::string_view text, const ImportOptions& options,
               SampleMaker& make) {
  const Report report(text, path);
  Test test;
  const Json* title = report.find("test_info", "test");
  if (title != nullptr && title->is_string()) {
    test.variant = variant_of(title->get<std::string>(), report.place("test_info.test"));
  }
  if (report.find("test_info", "Number_of_qps") != nullptr) {
    test.queue_pairs = report.whole("test_info", "Number_of_qps");
  }
  const std::int64_t bytes = report.whole("results", "MsgSize");
  if (report.find("results", "MsgRate") != nullptr) {
    make.add(options.machine, test.variant, "nic_message", {bytes, test.queue_pairs}, "",
             1 / (report.positive("results", "MsgRate") * 1e6));
  } else {
    const bool typical = report.find("results", "t_typical") != nullptr;
    make.add(options.machine, test.variant, "nic_latency", {bytes}, "",
             report.positive("results", typical ? "t_typical" : "t_avg") / 1e6);
  }
}

void read(const std::string& path, std::string_view text, const ImportOptions& options,
          Imported& out) {
  SampleMaker make(path, "", "", options, out);
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
