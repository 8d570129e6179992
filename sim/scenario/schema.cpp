#include "sim/scenario/schema.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace kvlane {

namespace {

const std::string& scalar(const YamlNode& node, std::string_view expected) {
  if (node.kind != YamlNode::Kind::scalar)
    throw InputError(node.place, describe(node), fmt::format("expected {}", expected));
  return node.text;
}

// The number texts YAML knows beside digits; named so that the message can say what is wrong.
void refuse_not_finite(const YamlNode& node) {
  static constexpr std::array<std::string_view, 12> kWords{".nan", ".NaN",  ".NAN", "nan",
                                                           "NaN",  ".inf",  ".Inf", ".INF",
                                                           "inf",  "-.inf", "-inf", "+.inf"};
  if (std::find(kWords.begin(), kWords.end(), node.text) != kWords.end())
    throw InputError(node.place, describe(node) + " is not a finite number",
                     "expected a finite number");
}

std::string bound_text(double value, bool percent) {
  if (percent) return fmt::format("{:g} %", value * 100);
  // Whole numbers in full: 100000, not 1e+05.
  return std::abs(value) < 1e15 && value == std::floor(value) ? fmt::format("{:.0f}", value)
                                                              : fmt::format("{:g}", value);
}

// "expected 1 to 1000"; a unit word is added where the base has one.
std::string range_text(const Range& range, std::string_view unit) {
  const bool percent = unit == "%";
  const std::string suffix = unit.empty() || percent ? std::string() : fmt::format(" {}", unit);
  const bool low = std::isfinite(range.low);
  const bool high = std::isfinite(range.high);
  if (low && high)
    return fmt::format("expected {}{}{} to {}{}", range.or_zero ? "0 or " : "",
                       range.above ? "more than " : "", bound_text(range.low, percent),
                       bound_text(range.high, percent), suffix);
  if (low)
    return fmt::format("expected {} {}{}", range.above ? "more than" : "at least",
                       bound_text(range.low, percent), suffix);
  if (high) return fmt::format("expected at most {}{}", bound_text(range.high, percent), suffix);
  return "expected a number";
}

void check_range(const YamlNode& node, double value, const Range& range, std::string_view unit) {
  if (range.or_zero && value == 0) return;
  const bool holds = (range.above ? value > range.low : value >= range.low) && value <= range.high;
  if (!holds)
    throw InputError(node.place, describe(node) + " is out of range", range_text(range, unit));
}

std::string_view base_unit(UnitFamily family) {
  switch (family) {
    case UnitFamily::time:
      return "s";
    case UnitFamily::size:
      return "B";
    case UnitFamily::rate:
      return "bps";
    case UnitFamily::byte_rate:
      return "B/s";
    case UnitFamily::compute:
      return "FLOPS";
    case UnitFamily::message_rate:
      return "msg/s";
    case UnitFamily::price:
      return "USD/h";
    case UnitFamily::share:
      return "%";
  }
  return "";
}

const std::string& quantity_text(const YamlNode& node, UnitFamily unit) {
  const std::string& text = scalar(node, example_of(unit));
  refuse_not_finite(node);
  return text;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, substituted});
    }
  }
  return row.back();
}

struct SourcedValue {
  const YamlNode* value = nullptr;
  SourceNote note;
};

const std::vector<std::string>& source_words() {
  static const std::vector<std::string> words{"measured", "table", "extrapolated", "datasheet",
                                              "assumed"};
  return words;
}

// {value: …, source: …, from: …}
SourcedValue read_sourced(const YamlNode& node) {
  static const std::vector<std::string> keys{"value", "source", "from"};
  SourcedValue result;
  std::array<bool, 3> seen{};
  for (const auto& [key, value] : node.entries) {
    const auto at = std::find(keys.begin(), keys.end(), key.text);
    if (at == keys.end())
      throw InputError(key.place, "unknown key " + describe(key),
                       "expected one of value, source, from" + nearest_hint(key.text, keys));
    const auto index = static_cast<std::size_t>(at - keys.begin());
    if (std::exchange(seen[index], true))
      throw InputError(key.place, "the key " + describe(key) + " a second time",
                       "expected every key once");
    if (index == 0) result.value = &value;
    if (index == 1) result.note.source = static_cast<Source>(read_word(value, source_words()));
    if (index == 2) result.note.from = read_text(value);
  }
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (!seen[i])
      throw InputError(node.place, "the key `" + keys[i] + "` is missing",
                       "expected {value, source, from}");
  return result;
}

}  // namespace

std::string read_text(const YamlNode& node) {
  const std::string& text = scalar(node, "text");
  if (text.empty()) throw InputError(node.place, "an empty text", "expected text");
  return text;
}

bool read_boolean(const YamlNode& node) {
  const std::string& text = scalar(node, "true or false");
  if (!node.quoted && (text == "true" || text == "false")) return text == "true";
  throw InputError(node.place, describe(node), "expected true or false");
}

std::int64_t read_integer(const YamlNode& node, const Range& range) {
  const std::string& text = scalar(node, "a whole number without a unit");
  refuse_not_finite(node);
  if (node.quoted)
    throw InputError(node.place, describe(node) + " in quotes is text",
                     "expected a whole number without a unit");
  const std::int64_t value = parse_integer(text, node.place);
  check_range(node, static_cast<double>(value), range, "");
  return value;
}

double read_number(const YamlNode& node, const Range& range) {
  const std::string& text = scalar(node, "a number without a unit");
  refuse_not_finite(node);
  if (node.quoted)
    throw InputError(node.place, describe(node) + " in quotes is text",
                     "expected a number without a unit");
  const double value = parse_number(text, node.place);
  check_range(node, value, range, "");
  return value;
}

double read_quantity(const YamlNode& node, UnitFamily unit, const Range& range) {
  const double value = parse_quantity(quantity_text(node, unit), unit, node.place);
  check_range(node, value, range, base_unit(unit));
  return value;
}

std::int64_t read_integer_quantity(const YamlNode& node, UnitFamily unit, const Range& range) {
  const std::int64_t value = parse_integer_quantity(quantity_text(node, unit), unit, node.place);
  const double base = static_cast<double>(value) * (unit == UnitFamily::time ? 1e-12 : 1.0);
  check_range(node, base, range, base_unit(unit));
  return value;
}

std::size_t read_word(const YamlNode& node, const std::vector<std::string>& words) {
  const std::string& text = scalar(node, "one of " + join_words(words));
  const auto at = std::find(words.begin(), words.end(), text);
  if (at == words.end())
    throw InputError(node.place, describe(node),
                     "expected one of " + join_words(words) + nearest_hint(text, words));
  return static_cast<std::size_t>(at - words.begin());
}

void check_list(const YamlNode& node, const Range& length) {
  if (node.kind != YamlNode::Kind::list)
    throw InputError(node.place, describe(node), "expected a list");
  const auto size = static_cast<double>(node.items.size());
  if (size < length.low || size > length.high)
    throw InputError(node.place, fmt::format("a list of {}", node.items.size()),
                     range_text(length, "items"));
}

std::string nearest_hint(const std::string& word, const std::vector<std::string>& words) {
  if (word.size() > 64) return "";
  // A hint helps while less than half of the word is wrong; of equally near words the first.
  std::size_t best = std::max<std::size_t>(word.size() / 2, 1) + 1;
  const std::string* nearest = nullptr;
  for (const std::string& w : words) {
    const std::size_t distance = edit_distance(word, w);
    if (distance < best) {
      best = distance;
      nearest = &w;
    }
  }
  return nearest != nullptr ? " (nearest: `" + *nearest + "`)" : "";
}

std::string join_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& w : words) text += text.empty() ? w : ", " + w;
  return text;
}

void MappingBase::read_into(const YamlNode& node, void* object) const {
  if (node.kind != YamlNode::Kind::mapping)
    throw InputError(node.place, describe(node), "expected a mapping: " + name_);
  std::vector<bool> seen(fields_.size(), false);
  for (const YamlEntry& entry : node.entries) {
    const YamlNode& key = entry.key;
    const YamlNode& value = entry.value;
    const auto field = std::find_if(fields_.begin(), fields_.end(),
                                    [&](const Field& f) { return f.key == key.text; });
    if (field == fields_.end()) {
      std::vector<std::string> keys;
      for (const Field& f : fields_) keys.push_back(f.key);
      const std::string hint = nearest_hint(key.text, keys);
      throw InputError(key.place, "unknown key " + describe(key) + " in " + name_,
                       hint.empty() ? "expected one of " + join_words(keys)
                                    : "expected a key of " + name_ + hint);
    }
    const auto index = static_cast<std::size_t>(field - fields_.begin());
    if (seen[index])
      throw InputError(key.place, "the key " + describe(key) + " a second time",
                       "expected every key once");
    seen[index] = true;
    if (value.kind == YamlNode::Kind::null)
      throw InputError(key.place, "no value for `" + field->key + "`",
                       "expected a value, or the key left out");
    const bool takes_source = field->takes_source && source_rule_ != SourceRule::none;
    if (takes_source && value.kind == YamlNode::Kind::mapping) {
      const SourcedValue sourced = read_sourced(value);
      field->read(object, *sourced.value);
      note_source_(object, field->key, sourced.note);
    } else if (takes_source && source_rule_ == SourceRule::required) {
      throw InputError(
          value.place, describe(value) + " without a source",
          "expected {value: ..., source: " + join_words(source_words()) + ", from: text}");
    } else {
      field->read(object, value);
    }
  }
  for (std::size_t i = 0; i < fields_.size(); ++i)
    if (!seen[i] && fields_[i].need == Need::required)
      throw InputError(node.place, "the key `" + fields_[i].key + "` is missing in " + name_,
                       "expected " + fields_[i].key + ": " + fields_[i].description);
}

}  // namespace kvlane
