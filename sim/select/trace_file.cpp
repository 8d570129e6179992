// Reader and writer of kvlane-selection-1.

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "sim/base/check.h"
#include "sim/base/input_error.h"
#include "sim/select/replay.h"

namespace kvlane {
namespace {

constexpr std::string_view kFormat = "kvlane-selection-1";
// What the body holds, in the words of the header.
constexpr std::string_view kRow =
    "token position; ids >= prompt_tokens are rows generated during decoding";
constexpr std::string_view kOrder = "step, layer, kv_head";
constexpr std::string_view kCoding = "varint n, first id, then id[i]-id[i-1]-1";
// Bounds on what a header may ask for, before anything is allocated.
constexpr std::int64_t kMostTokens = std::int64_t{1} << 28U;
constexpr std::int64_t kMostSteps = 60'000;
constexpr std::int64_t kMostLayers = 4096;
constexpr std::int64_t kMostHeads = 4096;
constexpr std::size_t kMostSets = std::size_t{1} << 22U;  // steps x layers x heads

[[noreturn]] void bad(const std::string& name, std::string_view found, std::string_view expected) {
  throw InputError({name, 0, 0}, found, fmt::format("expected {}", expected));
}

// zlib's gzip stream, closed whatever happens.
class Inflater {
 public:
  explicit Inflater(const std::string& name) : name_(name) {
    // 16: gzip header and trailer.
    if (inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK) bad(name_, "zlib failed", "more memory");
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }

  std::string run(std::span<const std::uint8_t> file) {
    if (file.size() > std::numeric_limits<uInt>::max())
      bad(name_, "the file is too large", "at most 4 GB");
    stream_.next_in = const_cast<Bytef*>(file.data());  // zlib does not write there
    stream_.avail_in = static_cast<uInt>(file.size());
    std::string out;
    std::vector<char> chunk(std::size_t{1} << 16U);
    int status = Z_OK;
    while (status != Z_STREAM_END) {
      stream_.next_out = reinterpret_cast<Bytef*>(chunk.data());
      stream_.avail_out = static_cast<uInt>(chunk.size());
      status = inflate(&stream_, Z_NO_FLUSH);
      const std::size_t made = chunk.size() - stream_.avail_out;
      if (status == Z_BUF_ERROR || (status == Z_OK && made == 0)) {
        bad(name_, "the gzip stream ends early", "a whole .kvsel.gz file");
      }
      if (status != Z_OK && status != Z_STREAM_END) {
        bad(name_, fmt::format("not a sound gzip stream ({})", stream_.msg ? stream_.msg : "?"),
            "a .kvsel.gz file");
      }
      if (out.size() + made > kLargestTrace) {
        bad(name_, "the file unpacks to more than 128 MiB", "a smaller trace");
      }
      out.append(chunk.data(), made);
    }
    if (stream_.avail_in != 0) {
      bad(name_, fmt::format("{} bytes after the gzip stream", stream_.avail_in), "its end");
    }
    return out;
  }

 private:
  const std::string& name_;
  z_stream stream_{};
};

class Header {
 public:
  Header(std::string_view line, const std::string& name)
      : name_(name), json_(nlohmann::json::parse(line, nullptr, false)) {
    if (!json_.is_object()) bad(name_, "the first line is not a JSON object", "the trace header");
  }
  std::string text(const char* key, bool required) const {
    const auto it = json_.find(key);
    if (it == json_.end() && !required) return "";
    if (it == json_.end() || !it->is_string()) bad(name_, missing(key), "text");
    auto text = it->get<std::string>();
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (is_control(text, i)) {
        bad(name_, fmt::format("a control character in header key '{}'", key), "text on one line");
      }
    }
    return text;
  }
  // A key that says how the body is written: left out, or the format's own words.
  void only(const char* key, std::string_view words) const {
    const std::string found = text(key, false);
    if (!found.empty() && found != words)
      bad(name_, fmt::format("header key '{}' is `{}`", key, found), fmt::format("`{}`", words));
  }
  std::int64_t number(const char* key, std::int64_t least, std::int64_t most) const {
    const auto it = json_.find(key);
    if (it == json_.end()) bad(name_, missing(key), "a number");
    return number_in(*it, key, least, most);
  }
  // Ascending layer numbers below `limit`.
  std::vector<std::int64_t> layers(const char* key, std::int64_t limit) const {
    const auto it = json_.find(key);
    if (it == json_.end() || !it->is_array()) bad(name_, missing(key), "a list of layers");
    std::vector<std::int64_t> list;
    for (const auto& item : *it) {
      list.push_back(number_in(item, key, list.empty() ? 0 : list.back() + 1, limit - 1));
    }
    return list;
  }

 private:
  std::string missing(const char* key) const {
    return fmt::format("header key '{}' is missing or of another type", key);
  }
  std::int64_t number_in(const nlohmann::json& value, const char* key, std::int64_t least,
                         std::int64_t most) const {
    const auto expected = fmt::format("a whole number from {} to {}", least, most);
    if (!value.is_number_integer()) bad(name_, missing(key), expected);
    const bool big =
        value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(most);
    if (big || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most) {
      bad(name_, fmt::format("header key '{}' is {}", key, shortened(value.dump())), expected);
    }
    return value.get<std::int64_t>();
  }
  const std::string& name_;
  nlohmann::json json_;
};

class Varints {
 public:
  Varints(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}
  // At most `most` (< 2^32); 7 bits a byte, low group first.
  std::uint32_t next(std::uint64_t most, std::string_view what) {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      if (at_ == bytes_.size()) bad(name_, "the body ends early", fmt::format("{}", what));
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      if (shift > 28) bad(name_, place("a varint of more than 5 bytes"), what);
      value |= std::uint64_t{byte & 127U} << shift;
      if (byte < 128) break;
    }
    if (value > most) {
      bad(name_, place(fmt::format("{} is {}", what, value)), fmt::format("at most {}", most));
    }
    return static_cast<std::uint32_t>(value);
  }
  bool at_end() const { return at_ == bytes_.size(); }
  std::size_t left() const { return bytes_.size() - at_; }
  std::string place(std::string_view what) const {
    return fmt::format("byte {} of the body: {}", at_, what);
  }

 private:
  std::string_view bytes_;
  const std::string& name_;
  std::size_t at_ = 0;
};

void append_varint(std::string& out, std::uint32_t value) {
  for (; value >= 128; value >>= 7U) out.push_back(static_cast<char>((value & 127U) | 128U));
  out.push_back(static_cast<char>(value));
}

}  // namespace

SelectionTrace read_selection_trace(std::span<const std::uint8_t> file, const std::string& name) {
  const std::string raw = Inflater(name).run(file);
  const std::size_t line = raw.find('\n');
  if (line == std::string::npos) bad(name, "no line end in the file", "a header line");
  const Header header(std::string_view(raw).substr(0, line), name);
  if (header.text("format", true) != kFormat) {
    bad(name, fmt::format("the format `{}`", header.text("format", true)), kFormat);
  }
  header.only("row", kRow);
  header.only("order", kOrder);
  header.only("coding", kCoding);
  SelectionTrace trace;
  trace.name = name;
  trace.model = header.text("model", true);
  trace.text = header.text("text", false);
  trace.kind = header.text("kind", false);
  trace.selector = header.text("selector", true);
  trace.note = header.text("selector_note", false);
  trace.prompt_tokens = header.number("prompt_tokens", 1, kMostTokens);
  trace.steps = header.number("steps", 1, kMostSteps);
  trace.model_layers = header.number("n_layers", 1, kMostLayers);
  trace.kv_heads = header.number("kv_heads", 1, kMostHeads);
  trace.layers = header.layers("layers", trace.model_layers);
  trace.dense_layers = header.layers("dense_layers", trace.model_layers);
  if (trace.layers.empty()) bad(name, "no layer in the body", "at least one");

  Varints body(std::string_view(raw).substr(line + 1), name);
  // A set of rows takes a byte at least: a short body cannot ask for a large table.
  const auto sets = static_cast<std::size_t>(trace.steps) * trace.layers.size() *
                    static_cast<std::size_t>(trace.kv_heads);
  if (sets > kMostSets) bad(name, fmt::format("{} sets of rows", sets), "at most 4194304");
  if (sets > body.left()) bad(name, "the body ends early", fmt::format("{} sets of rows", sets));
  trace.rows.resize(static_cast<std::size_t>(trace.steps));
  for (std::size_t s = 0; s < trace.rows.size(); ++s) {
    const auto positions = static_cast<std::uint64_t>(trace.prompt_tokens) + s + 1;
    auto& step = trace.rows[s];
    step.resize(trace.layers.size());
    for (auto& layer : step) {
      layer.resize(static_cast<std::size_t>(trace.kv_heads));
      for (auto& rows : layer) {
        const std::uint32_t count = body.next(positions, "the number of rows");
        if (count > body.left()) bad(name, "the body ends early", fmt::format("{} rows", count));
        rows.reserve(count);
        std::uint64_t next = 0;  // the lowest id possible
        for (std::uint32_t i = 0; i < count; ++i) {
          if (next >= positions) {
            bad(name, body.place("a row beyond the query"), fmt::format("below {}", positions));
          }
          next += body.next(positions - 1 - next, "a row id or gap");
          rows.push_back(static_cast<std::uint32_t>(next++));
        }
      }
    }
  }
  if (!body.at_end())
    bad(name, fmt::format("{} bytes after the last step", body.left()), "the end");
  return trace;
}

std::vector<std::uint8_t> write_selection_trace(const SelectionTrace& trace) {
  const nlohmann::ordered_json header = {{"format", kFormat},
                                         {"model", trace.model},
                                         {"text", trace.text},
                                         {"kind", trace.kind},
                                         {"selector_note", trace.note},
                                         {"selector", trace.selector},
                                         {"prompt_tokens", trace.prompt_tokens},
                                         {"steps", trace.steps},
                                         {"n_layers", trace.model_layers},
                                         {"layers", trace.layers},
                                         {"kv_heads", trace.kv_heads},
                                         {"dense_layers", trace.dense_layers},
                                         {"row", kRow},
                                         {"order", kOrder},
                                         {"coding", kCoding}};
  std::string raw =
      header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  KVLANE_CHECK(std::ssize(trace.rows) == trace.steps, "{} steps", trace.rows.size());
  for (const auto& step : trace.rows) {
    KVLANE_CHECK(step.size() == trace.layers.size(), "{} layers", step.size());
    for (const auto& layer : step) {
      KVLANE_CHECK(std::ssize(layer) == trace.kv_heads, "{} kv heads", layer.size());
      for (const auto& rows : layer) {
        append_varint(raw, static_cast<std::uint32_t>(rows.size()));
        std::uint32_t next = 0;
        for (const std::uint32_t row : rows) {
          KVLANE_CHECK(row >= next, "row {} after {}", row, next);
          append_varint(raw, row - next);
          next = row + 1;
        }
      }
    }
  }
  KVLANE_CHECK(raw.size() <= kLargestTrace, "{} bytes", raw.size());
  z_stream stream{};
  KVLANE_CHECK(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY) == Z_OK,
               "zlib");
  std::vector<std::uint8_t> out(deflateBound(&stream, static_cast<uLong>(raw.size())));
  stream.next_in = reinterpret_cast<Bytef*>(raw.data());
  stream.avail_in = static_cast<uInt>(raw.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  KVLANE_CHECK(status == Z_STREAM_END, "zlib status {}", status);
  return out;
}

}  // namespace kvlane
