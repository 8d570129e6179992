#include "sim/scenario/hf_object.h"

#include <cmath>
#include <string_view>

namespace kvlane {

std::string shown(const Json& value) {
  constexpr std::size_t kLongest = 40;
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_object()) return "an object";
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

HfObject::Found HfObject::find(const Aliases& keys) const {
  for (const char* key : keys) {
    const std::string_view name(key);
    const Json* at = json_;
    std::size_t start = 0;
    while (at != nullptr && start <= name.size()) {
      const std::size_t dot = std::min(name.find('.', start), name.size());
      const auto next =
          at->is_object() ? at->find(std::string(name.substr(start, dot - start))) : at->end();
      at = at->is_object() && next != at->end() && !next->is_null() ? &*next : nullptr;
      start = dot + 1;
    }
    if (at != nullptr) return {key, at};
  }
  return {};
}

SourcePlace HfObject::place_of(const std::string& key) const {
  const auto at = places_->find(key.empty() ? path_ : path_.empty() ? key : path_ + '.' + key);
  return at != places_->end() ? at->second : place();
}

std::string HfObject::name_of(const std::string& key) const {
  return path_.empty() ? fmt::format("`{}`", key) : fmt::format("`{}.{}`", path_, key);
}

void HfObject::fail(const std::string& key, const std::string& found,
                    const std::string& expected) const {
  throw InputError(place_of(key), fmt::format("{} is {}", name_of(key), found), expected);
}

void HfObject::missing(const std::string& key, const std::string& expected) const {
  const auto at = json_->is_object() ? json_->find(key) : json_->end();
  const bool null = json_->is_object() && at != json_->end() && at->is_null();
  throw InputError(null ? place_of(key) : place_of(""),
                   fmt::format("{} is {}", name_of(key), null ? "null" : "missing"), expected);
}

std::int64_t HfObject::to_integer(const std::string& key, const Json& value, std::int64_t low,
                                  std::int64_t high) const {
  const std::string expected = fmt::format("expected a whole number from {} to {}", low, high);
  std::int64_t number = 0;
  if (value.is_number_unsigned()) {
    const auto wide = value.get<std::uint64_t>();
    if (wide > static_cast<std::uint64_t>(high)) fail(key, shown(value), expected);
    number = static_cast<std::int64_t>(wide);
  } else if (value.is_number_integer()) {
    number = value.get<std::int64_t>();
  } else if (value.is_number_float()) {
    const auto real = value.get<double>();
    if (!(std::abs(real) < 0x1p53) || real != std::floor(real)) fail(key, shown(value), expected);
    number = static_cast<std::int64_t>(real);
  } else {
    fail(key, shown(value), expected);
  }
  if (number < low || number > high) fail(key, shown(value), expected);
  return number;
}

std::optional<std::int64_t> HfObject::integer(const Aliases& keys, std::int64_t low,
                                              std::int64_t high) const {
  const Found found = find(keys);
  if (!found) return std::nullopt;
  return to_integer(found.key, *found.value, low, high);
}

std::int64_t HfObject::required(const Aliases& keys, std::int64_t low, std::int64_t high) const {
  const auto value = integer(keys, low, high);
  if (!value) {
    std::string others;
    for (std::size_t i = 1; i < keys.size(); ++i) {
      others += fmt::format("{}{}", i == 1 ? " (older names: " : ", ", keys[i]);
    }
    missing(keys.front(), fmt::format("expected a whole number from {} to {}{}{}", low, high,
                                      others, others.empty() ? "" : ")"));
  }
  return *value;
}

std::optional<bool> HfObject::boolean(const char* key) const {
  const Found found = find({key});
  if (!found) return std::nullopt;
  if (!found.value->is_boolean()) fail(key, shown(*found.value), "expected true or false");
  return found.value->get<bool>();
}

std::optional<std::string> HfObject::text(const Aliases& keys) const {
  const Found found = find(keys);
  if (!found) return std::nullopt;
  if (!found.value->is_string()) fail(found.key, shown(*found.value), "expected text");
  auto text = found.value->get<std::string>();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_control(text, i))
      fail(found.key, "a text with a control character", "expected text on one line");
  }
  return text;
}

HfObject::Found HfObject::list(const Aliases& keys) const {
  for (const char* key : keys) {
    if (Found found = find({key}); found && found.value->is_array()) return found;
  }
  return {};
}

std::int64_t HfObject::item(const Found& list, std::size_t i, std::int64_t low,
                            std::int64_t high) const {
  return to_integer(fmt::format("{}[{}]", list.key, i), (*list.value)[i], low, high);
}

}  // namespace kvlane
