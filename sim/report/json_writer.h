#pragma once
// Writes JSON text in the order it is told: stable keys, shortest round-trip numbers, two spaces a
// level. A container may be laid out on one line (long arrays of numbers, small objects). Misuse (a
// value without its key, a container left open) is a broken invariant.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvlane {

// `text` as a JSON string, quotes included; bytes that are not UTF-8 pass unchanged.
std::string json_quoted(std::string_view text);

class JsonWriter {
 public:
  enum class Layout { lines, one_line };

  JsonWriter& begin_object(Layout layout = Layout::lines) { return open('{', '}', layout); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array(Layout layout = Layout::lines) { return open('[', ']', layout); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(double number);
  JsonWriter& value(std::int64_t number);
  JsonWriter& value(std::uint64_t number);
  JsonWriter& value(bool flag);
  JsonWriter& null();
  template <class T>
  JsonWriter& value(const std::optional<T>& maybe) {
    return maybe ? value(*maybe) : null();
  }
  template <class T>
  JsonWriter& member(std::string_view name, const T& content) {
    return key(name).value(content);
  }

  // The text, with a newline at the end; every container must be closed.
  std::string finish();

 private:
  struct Level {
    char closer;
    Layout layout;
    bool empty = true;
  };

  JsonWriter& open(char opener, char closer, Layout layout);
  JsonWriter& close(char closer);
  void before_value();
  void separate(Level& level);
  JsonWriter& put(std::string_view text);

  std::string text_;
  std::vector<Level> levels_;
  bool after_key_ = false;
};

}  // namespace kvlane
