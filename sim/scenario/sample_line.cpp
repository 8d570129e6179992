// The writer of sample_file.h, with the standard library only: tests/device_check has no other.

#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "sim/scenario/sample_file.h"

namespace kvlane {
namespace {

struct Piece {
  std::size_t length = 1;
  bool valid = false;
};

// The UTF-8 sequence at the front of `text` (RFC 3629, section 4), or the longest beginning of one.
Piece utf8_piece(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {1, true};
  if (lead < 0xc2 || lead > 0xf4) return {1, false};
  const std::size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  // No overlong forms, no surrogates, nothing above U+10FFFF.
  unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size() || byte(i) < low || byte(i) > high) return {i, false};
    low = 0x80;
    high = 0xbf;
  }
  return {length, true};
}

std::string escaped(char c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  if (static_cast<unsigned char>(c) >= 0x20) return {c};
  constexpr char kDigits[] = "0123456789abcdef";
  const auto code = static_cast<unsigned char>(c);
  return std::string("\\u00") + kDigits[code >> 4U] + kDigits[code & 15U];
}

// A JSON string; what is no UTF-8 becomes U+FFFD.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const Piece piece = utf8_piece(text);
    if (!piece.valid) {
      out += "\xef\xbf\xbd";
    } else if (piece.length == 1) {
      out += escaped(text.front());
    } else {
      out += text.substr(0, piece.length);
    }
    text.remove_prefix(piece.length);
  }
  return out += '"';
}

// As few digits as read back as the same number, without an exponent from 1e-4 up to 1e16.
std::string decimal(double value) {
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific);
  std::string scientific(text.data(), end.ptr);
  const std::size_t e = scientific.find('e');
  if (e == std::string::npos) return scientific;  // "inf", "nan": no reader takes them
  const int exponent = std::stoi(scientific.substr(e + 1));
  if (exponent < -4 || exponent >= 16) return scientific;
  const bool negative = scientific.front() == '-';
  std::string digits = scientific.substr(negative ? 1 : 0, e - (negative ? 1 : 0));
  if (digits.size() > 1) digits.erase(1, 1);  // the point
  if (exponent < 0) {
    digits.insert(0, "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0'));
  } else {
    const auto whole = static_cast<std::size_t>(exponent) + 1;
    if (digits.size() < whole) digits.append(whole - digits.size(), '0');
    if (digits.size() > whole) digits.insert(whole, ".");
  }
  return negative ? '-' + digits : digits;
}

class Line {
 public:
  void words(const char* key, const std::string& value) { put(key, quoted(value)); }
  void number(const char* key, double value) { put(key, decimal(value)); }
  void number(const char* key, std::int64_t value) { put(key, std::to_string(value)); }
  void put(const char* key, const std::string& value) {
    text_ += text_.empty() ? "{\"" : ", \"";
    text_ += key;
    text_ += "\": " + value;
  }
  // Nothing for what an imported sample does not have.
  void words_if_any(const char* key, const std::string& value) {
    if (!value.empty()) words(key, value);
  }
  template <class Number>
  void number_if_any(const char* key, Number value) {
    if (value != 0) number(key, value);
  }
  std::string text() const { return text_ + "}\n"; }

 private:
  std::string text_;
};

std::string shape_object(const Sample& sample) {
  std::string text = "{";
  const std::vector<std::string>& names = sample_dimensions(sample.kernel);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += ", ";
    text += '"' + names[i] + "\": " + std::to_string(sample.shape[i]);
  }
  return text + '}';
}

}  // namespace

std::string sample_line(const Sample& sample) {
  Line line;
  line.words("machine", sample.machine);
  line.words("source", sample.source);
  line.words("licence", sample.licence);
  line.words("variant", sample.variant);
  line.words("kernel", sample.kernel);
  line.put("shape", shape_object(sample));
  line.words("dtype", sample.dtype);
  line.number("seconds", sample.seconds);
  line.words_if_any("model", sample.model);
  line.words_if_any("set_aside", sample.set_aside);
  const Conditions& how = sample.conditions;
  line.number_if_any("seconds_p25", how.seconds_p25);
  line.number_if_any("seconds_p75", how.seconds_p75);
  line.number_if_any("repetitions", how.repetitions);
  line.words_if_any("commit", how.commit);
  line.words_if_any("driver", how.driver);
  line.words_if_any("clock_state", how.clock_state);
  line.number_if_any("load_average_1min", how.load_average_1min);
  line.words_if_any("problem", how.problem);
  line.number_if_any("threads", how.threads);
  line.number_if_any("multiprocessors", how.multiprocessors);
  line.number_if_any("memory_bytes", how.memory_bytes);
  line.number_if_any("cache_bytes", how.cache_bytes);
  return line.text();
}

}  // namespace kvlane
