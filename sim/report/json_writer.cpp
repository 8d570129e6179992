#include "sim/report/json_writer.h"

#include <fmt/format.h>

#include <utility>

#include "sim/base/check.h"
#include "sim/report/number_format.h"

namespace kvlane {

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
        } else {
          out += c;
        }
    }
  }
  return out += '"';
}

JsonWriter& JsonWriter::key(std::string_view name) {
  KVLANE_CHECK(!levels_.empty() && levels_.back().closer == '}' && !after_key_,
               "key '{}' outside an object", name);
  separate(levels_.back());
  text_ += json_quoted(name);
  text_ += ": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) { return put(json_quoted(text)); }
JsonWriter& JsonWriter::value(double number) { return put(shortest(number)); }
JsonWriter& JsonWriter::value(std::int64_t number) { return put(fmt::format("{}", number)); }
JsonWriter& JsonWriter::value(std::uint64_t number) { return put(fmt::format("{}", number)); }
JsonWriter& JsonWriter::value(bool flag) { return put(flag ? "true" : "false"); }
JsonWriter& JsonWriter::null() { return put("null"); }

JsonWriter& JsonWriter::put(std::string_view text) {
  before_value();
  text_ += text;
  return *this;
}

JsonWriter& JsonWriter::open(char opener, char closer, Layout layout) {
  before_value();
  // Inside one line everything is on that line.
  if (!levels_.empty() && levels_.back().layout == Layout::one_line) layout = Layout::one_line;
  text_ += opener;
  levels_.push_back({closer, layout});
  return *this;
}

JsonWriter& JsonWriter::close(char closer) {
  KVLANE_CHECK(!levels_.empty() && levels_.back().closer == closer && !after_key_,
               "'{}' closes nothing", closer);
  const Level level = levels_.back();
  levels_.pop_back();
  if (level.layout == Layout::lines && !level.empty) {
    text_ += '\n';
    text_.append(levels_.size() * 2, ' ');
  }
  text_ += closer;
  return *this;
}

void JsonWriter::before_value() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (levels_.empty()) {
    KVLANE_CHECK(text_.empty(), "a second value at the top");
    return;
  }
  KVLANE_CHECK(levels_.back().closer == ']', "a value without a key");
  separate(levels_.back());
}

void JsonWriter::separate(Level& level) {
  if (!level.empty) text_ += level.layout == Layout::lines ? "," : ", ";
  if (level.layout == Layout::lines) {
    text_ += '\n';
    text_.append(levels_.size() * 2, ' ');
  }
  level.empty = false;
}

std::string JsonWriter::finish() {
  KVLANE_CHECK(levels_.empty() && !text_.empty(), "JSON left open");
  text_ += '\n';
  return std::move(text_);
}

}  // namespace kvlane
