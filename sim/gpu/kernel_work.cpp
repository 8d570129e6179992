#include "sim/gpu/kernel_work.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <stdexcept>

namespace kvlane {
namespace {

// Dimensions by name, as numbers.
class Shape {
 public:
  Shape(std::string_view kernel, const std::vector<std::int64_t>& sizes)
      : names_(sample_dimensions(kernel)), sizes_(sizes) {
    if (names_.size() != sizes_.size()) {
      throw std::logic_error(std::string(kernel) + " with " + std::to_string(sizes_.size()) +
                             " dimensions");
    }
  }
  double operator()(std::string_view name) const {
    const auto at = std::find(names_.begin(), names_.end(), name);
    if (at == names_.end()) throw std::logic_error("no dimension " + std::string(name));
    return static_cast<double>(sizes_[static_cast<std::size_t>(at - names_.begin())]);
  }

 private:
  const std::vector<std::string>& names_;
  const std::vector<std::int64_t>& sizes_;
};

using WorkOf = std::function<KernelWork(const Shape&, double element)>;

// Scores and values of `pairs` (query head, key) pairs, 2 FLOPs an element each.
double attention_flops(double pairs, double width) { return 4 * pairs * width; }

// K and V of `rows` (token, kv head) pairs.
double kv_bytes_of(double rows, double width, double element) { return 2 * rows * width * element; }

// (query, key) pairs of `chunk` causal queries after `cached` tokens.
double causal_pairs(double chunk, double cached) { return chunk * (cached + (chunk + 1) / 2); }

KernelWork prefill(const Shape& s, double chunk, double cached, double element) {
  const double sequences = s("sequences"), width = s("head_width");
  KernelWork work;
  work.flops = attention_flops(sequences * s("query_heads") * causal_pairs(chunk, cached), width);
  work.bytes = kv_bytes_of(sequences * s("kv_heads") * (cached + chunk), width, element) +
               2 * sequences * s("query_heads") * chunk * width * element;
  return work;
}

KernelWork decode(const Shape& s, double tokens, double element) {
  const double rows = s("sequences") * s("kv_heads") * tokens;
  return {attention_flops(s("sequences") * s("query_heads") * tokens, s("head_width")),
          kv_bytes_of(rows, s("head_width"), element), s("sequences") * s("kv_heads")};
}

// Runs of neighbouring rows: what a walk over a selection jumps between.
double runs(const Shape& s) {
  return s("sequences") * s("kv_heads") *
         std::max(s("selected_tokens") / std::max(s("run_tokens"), 1.0), 1.0);
}

KernelWork gather(const Shape& s, double element) {
  const double rows = s("sequences") * s("kv_heads") * s("selected_tokens");
  return {0, 2 * kv_bytes_of(rows, s("head_width"), element), runs(s)};  // read and written
}

// kernels/hack/kernel.h: codes, and a scale, a minimum (16 bit) and a sum a partition.
double hack_bytes(const Shape& s, double elements) {
  return elements * (s("bits") / 8 + 5 / s("partition"));
}

// Tokens of a sequence that stay in 16 bit: the sinks and those after the last whole partition.
double hack_exact_tokens(const Shape& s, double tokens) {
  constexpr double kSinks = 4;  // kernels/hack/kernel.h, HackShape::sinks
  const double partition = s("partition"), rest = std::max(tokens - kSinks, 0.0);
  return tokens - std::floor(rest / partition) * partition;
}

// A 16-bit element costs the time of about ten codes: of a few tokens nothing is fetched ahead
// (kernels/hack on a CPU: 9 to 16, ./kvlane calibrate kernels). A GPU hides these items behind
// bytes.
constexpr double kExactElement = 10;

// Query heads of a group in blocks of four, as kernels/common/simd-inl.h takes them: the codes are
// taken apart once a block.
double head_blocks(const Shape& s) { return std::ceil(s("query_heads") / s("kv_heads") / 4); }

KernelWork hack_attention(const Shape& s, double element) {
  const double exact = hack_exact_tokens(s, s("kv_tokens"));
  const double heads = s("sequences") * s("kv_heads") * 2 * s("head_width");  // elements a token
  const double codes = heads * (s("kv_tokens") - exact);
  return {attention_flops(s("sequences") * s("query_heads") * s("kv_tokens"), s("head_width")),
          hack_bytes(s, codes) + heads * exact * element,
          codes * head_blocks(s) + kExactElement * heads * exact};
}

// The codes of a token: 16 bytes, its norm 2, the score 4.
constexpr double kHataRow = 22;

const std::map<std::string, WorkOf, std::less<>>& works() {
  static const std::map<std::string, WorkOf, std::less<>> table = {
      {"gemm",
       [](const Shape& s, double e) -> KernelWork {
         const double m = s("m"), n = s("n"), k = s("k");
         return {2 * m * n * k, e * (m * k + n * k + m * n), 0};
       }},
      {"prefill_attention", [](const Shape& s, double e) { return prefill(s, s("tokens"), 0, e); }},
      {"prefix_attention",
       [](const Shape& s, double e) { return prefill(s, s("new_tokens"), s("cached_tokens"), e); }},
      {"decode_attention", [](const Shape& s, double e) { return decode(s, s("kv_tokens"), e); }},
      {"sparse_attention",
       [](const Shape& s, double e) {
         KernelWork work = decode(s, s("selected_tokens"), e);
         work.items = runs(s);
         return work;
       }},
      {"elementwise",
       [](const Shape& s, double) -> KernelWork {
         return {0, s("bytes"), 0};
       }},
      {"copy",
       [](const Shape& s, double) -> KernelWork {
         return {0, 2 * s("bytes"), 0};
       }},
      {"read",
       [](const Shape& s, double) -> KernelWork {
         return {0, s("bytes"), 0};
       }},
      {"kv_gather", gather},
      {"kv_scatter", gather},
      {"hata_encode",
       [](const Shape& s, double e) -> KernelWork {
         const double vectors = s("tokens") * s("heads"), d = s("head_width");
         return {2 * vectors * d * 128,
                 vectors * (d * e + 18) + s("kv_heads") * d * 128 * 4,  // fp32 weights
                 vectors};
       }},
      {"hata_score",
       [](const Shape& s, double) -> KernelWork {
         const double keys = s("sequences") * s("kv_tokens");
         return {keys * s("query_heads"), keys * s("kv_heads") * kHataRow,
                 s("sequences") * s("kv_heads")};
       }},
      {"infinigen_project",
       [](const Shape& s, double e) -> KernelWork {
         const double vectors = s("tokens") * s("heads"), d = s("head_width"), c = s("channels");
         // The kept channels are spread over the fp32 skew: all of its lines are read.
         return {2 * vectors * d * c, vectors * (d + c) * e + s("kv_heads") * d * d * 4, vectors};
       }},
      {"infinigen_score",
       [](const Shape& s, double e) -> KernelWork {
         const double keys = s("sequences") * s("kv_tokens"), c = s("channels");
         return {2 * keys * s("query_heads") * c, keys * s("kv_heads") * (c * e + 4),
                 keys * s("query_heads")};  // an exponential each
       }},
      {"topk",
       [](const Shape& s, double) -> KernelWork {
         return {0, s("rows") * (s("width") + s("chosen")) * 4, s("rows")};
       }},
      {"index_split",
       [](const Shape& s, double) -> KernelWork {
         const double entries = s("sequences") * s("kv_heads") * s("index_width");
         return {0, entries * 8, s("sequences") * s("kv_heads")};
       }},
      {"hack_append",
       [](const Shape& s, double e) -> KernelWork {
         const double exact = hack_exact_tokens(s, s("new_tokens"));  // into an empty cache
         const double token = 2 * s("sequences") * s("kv_heads") * s("head_width");
         const double codes = token * (s("new_tokens") - exact);
         return {codes, token * (s("new_tokens") + exact) * e + hack_bytes(s, codes),
                 s("sequences") * s("kv_heads")};
       }},
      {"hack_attention", hack_attention},
      {"hack_dequantise_attention", hack_attention},
      {"rms_norm",
       [](const Shape& s, double e) -> KernelWork {
         return {0, 2 * s("rows") * s("width") * e, s("rows")};
       }},
      {"gated_unit",
       [](const Shape& s, double e) -> KernelWork {
         return {s("rows") * s("width"), 3 * s("rows") * s("width") * e, s("rows")};
       }},
      {"rope",
       [](const Shape& s, double e) -> KernelWork {
         const double elements = s("tokens") * s("heads") * s("head_width");
         return {s("tokens") * s("head_width"), 2 * elements * e, s("tokens")};
       }},
      {"embedding",
       [](const Shape& s, double e) -> KernelWork {
         return {0, 2 * s("tokens") * s("width") * e, s("tokens")};
       }},
      {"add",
       [](const Shape& s, double e) -> KernelWork {
         return {0, 3 * s("elements") * e, 0};
       }},
  };
  return table;
}

}  // namespace

std::optional<KernelWork> kernel_work(std::string_view kernel,
                                      const std::vector<std::int64_t>& shape,
                                      double element_bytes) {
  const auto found = works().find(kernel);
  if (found == works().end()) return std::nullopt;
  return found->second(Shape(kernel, shape), element_bytes);
}

std::optional<KernelWork> kernel_work(const Sample& sample) {
  const double element = sample.dtype == "fp32"                            ? 4
                         : sample.dtype == "fp8" || sample.dtype == "int8" ? 1
                                                                           : 2;
  return kernel_work(sample.kernel, sample.shape, element);
}

const std::vector<std::string>& costed_kernels() {
  static const std::vector<std::string> names = {"copy",
                                                 "read",
                                                 "sparse_attention",
                                                 "kv_gather",
                                                 "kv_scatter",
                                                 "hata_encode",
                                                 "hata_score",
                                                 "infinigen_project",
                                                 "infinigen_score",
                                                 "topk",
                                                 "index_split",
                                                 "hack_append",
                                                 "hack_attention",
                                                 "hack_dequantise_attention",
                                                 "rms_norm",
                                                 "gated_unit",
                                                 "rope",
                                                 "embedding",
                                                 "add"};
  return names;
}

}  // namespace kvlane
