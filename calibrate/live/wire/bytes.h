#pragma once
// Fixed little-endian numbers in byte strings: what goes over a wire. A Reader that runs out of
// bytes, or is asked for more elements than could be there, turns bad and gives zeros from then on:
// look at ok() once, at the end.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace kvlane::live {

// No time that a peer tells lies further from its loop's start: 26 days, and sums of two hold.
inline constexpr std::int64_t kMostPs = std::int64_t{1} << 61U;

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "both ends are little-endian");

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}
  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void put(T value) { put_bytes({reinterpret_cast<const std::byte*>(&value), sizeof value}); }
  void put_bytes(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    const std::size_t before = out_.size();
    out_.resize(before + bytes.size());
    std::memcpy(out_.data() + before, bytes.data(), bytes.size());
  }
  template <class T>
  requires std::is_arithmetic_v<T>
  void put_all(std::span<const T> values) { put_bytes(std::as_bytes(values)); }
  void put_text(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    put_bytes(std::as_bytes(std::span(text)));
  }

 private:
  std::vector<std::byte>& out_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}
  bool ok() const { return ok_; }
  bool done() const { return ok_ && left_.empty(); }
  std::span<const std::byte> rest() const { return left_; }

  template <class T>
  requires std::is_arithmetic_v<T> T get() {
    T value{};
    const std::span<const std::byte> bytes = get_bytes(sizeof value);
    if (ok_) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  // The largest value an enum may have; beyond it is bad.
  template <class T>
  requires std::is_enum_v<T> T get_enum(T last) {
    const auto value = get<std::underlying_type_t<T>>();
    if (value > static_cast<std::underlying_type_t<T>>(last)) fail();
    return ok_ ? static_cast<T>(value) : T{};
  }
  std::span<const std::byte> get_bytes(std::size_t count) {
    if (!ok_ || count > left_.size()) {
      fail();
      return {};
    }
    const auto bytes = left_.first(count);
    left_ = left_.subspan(count);
    return bytes;
  }
  template <class T>
  requires std::is_arithmetic_v<T>
  void get_all(std::size_t count, std::vector<T>& values) {
    if (!ok_ || count > left_.size() / sizeof(T)) {
      fail();
      return;
    }
    values.resize(count);
    if (count > 0)
      std::memcpy(values.data(), get_bytes(count * sizeof(T)).data(), count * sizeof(T));
  }
  std::string get_text(std::size_t longest) {
    const auto size = get<std::uint32_t>();
    if (size > longest) fail();
    const std::span<const std::byte> bytes = get_bytes(ok_ ? size : 0);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  void fail() {
    ok_ = false;
    left_ = {};
  }

 private:
  std::span<const std::byte> left_;
  bool ok_ = true;
};

}  // namespace kvlane::live
