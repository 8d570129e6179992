#include "calibrate/live/compute/work_kernels.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "sim/base/check.h"
#include "sim/kv/payload.h"

namespace kvlane::live {
namespace {

using Shape = std::vector<std::int64_t>;

double real(std::int64_t v) { return static_cast<double>(v); }
std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// KV rows that kernels walk come in multiples of this (kernels/common/kv_cache.h).
std::int64_t row_width(std::int64_t width) { return divide_up(width, 16) * 16; }

class Cut {
 public:
  Cut(const Work& work, const CostModel& model, const std::string& gemm_dtype)
      : work_(work), model_(model.model()), cost_(model), tp_(model.tp()), dtype_(gemm_dtype) {}

  std::vector<KernelStep> steps() {
    switch (work_.kind) {
      case WorkKind::prefill_layer:
        prefill_layer();
        break;
      case WorkKind::prefill_head:
        head(std::max<std::int64_t>(work_.batch, 1));
        break;
      case WorkKind::build_metadata:
        build_metadata();
        break;
      case WorkKind::quantise:
        quantise();
        break;
      case WorkKind::dequantise:
        dequantise();
        break;
      case WorkKind::decode_qkv:
        before_attention(work_.batch);
        break;
      case WorkKind::decode_attention:
        decode_attention();
        break;
      case WorkKind::decode_ffn:
        after_attention(work_.batch);
        break;
      case WorkKind::decode_head:
        head(work_.batch);
        break;
      case WorkKind::select:
      case WorkKind::host_step:
      case WorkKind::gather_host:
        break;
    }
    return std::move(steps_);
  }

 private:
  const LayerSpec& layer() const {
    KVLANE_CHECK(work_.layer.is_valid() && work_.layer.index() < model_.layers.size(),
                 "{} has no layer {}", model_.name, work_.layer.value());
    const LayerSpec& spec = model_.layers[work_.layer.index()];
    if (spec.attention == AttentionKind::linear) {
      throw std::runtime_error(
          fmt::format("layer {} of {} has linear attention, for which there is no kernel; expected "
                      "full, windowed or latent attention, or modelled compute",
                      work_.layer.value(), model_.name));
    }
    return spec;
  }

  void add(const char* kernel, Shape shape, std::int64_t times = 1) {
    KernelStep step;
    step.shape.kernel = kernel;
    step.shape.shape = std::move(shape);
    step.shape.dtype = step.shape.kernel == "gemm" ? dtype_ : "bf16";
    step.times = times;
    steps_.push_back(std::move(step));
  }

  void gemm(std::int64_t m, double n, std::int64_t k) {
    if (m > 0 && n > 0 && k > 0) add("gemm", {m, std::max<std::int64_t>(std::llround(n), 1), k});
  }

  void all_reduce(std::int64_t elements) {
    if (tp_ > 1 && elements > 0) add("add", {elements});
  }

  void before_attention(std::int64_t m) {
    const LayerSpec& spec = layer();
    if (m == 0) return;
    const double output = std::min(real(spec.query_heads * spec.value_head_dim * model_.hidden),
                                   real(spec.attention_parameters));
    const RankHeads heads = rank_heads(spec, tp_);
    add("rms_norm", {m, model_.hidden});
    gemm(m, (real(spec.attention_parameters) - output) / tp_ / real(model_.hidden), model_.hidden);
    add("rope", {m, heads.query + heads.kv, std::max<std::int64_t>(spec.head_dim / 2 * 2, 2)});
  }

  void after_attention(std::int64_t m) {
    const LayerSpec& spec = layer();
    if (m == 0) return;
    const std::int64_t inputs = divide_up(spec.query_heads * spec.value_head_dim, tp_);
    gemm(m, std::min(real(model_.hidden), real(spec.attention_parameters) / real(inputs)), inputs);
    all_reduce(m * model_.hidden);
    add("add", {m * model_.hidden});
    add("rms_norm", {m, model_.hidden});
    if (spec.ffn_experts > 0) {
      experts(spec, m);
    } else {
      feed_forward(m, real(spec.ffn_parameters) / tp_, 1);
    }
    all_reduce(m * model_.hidden);
    add("add", {m * model_.hidden});
  }

  // Two thirds of the weights up and gate, one third down.
  void feed_forward(std::int64_t m, double parameters, std::int64_t times) {
    const std::int64_t width = std::llround(parameters / 3 / real(model_.hidden));
    if (width <= 0) return;
    for (std::int64_t i = 0; i < times; ++i) {
      gemm(m, real(2 * width), model_.hidden);
      add("gated_unit", {m, width});
      gemm(m, real(model_.hidden), width);
    }
  }

  // m tokens draw k of E experts each: E (1 - (1 - k/E)^m) of them run on average, each for its
  // share of the tokens; shared experts and the router run for all.
  void experts(const LayerSpec& spec, std::int64_t m) {
    const double all = real(spec.ffn_experts);
    const double drawn = std::min(real(spec.ffn_experts_per_token), all);
    const double touched = std::max(all * (1 - std::pow(1 - drawn / all, real(m))), 1.0);
    const double idle = real(spec.ffn_parameters - spec.ffn_active_parameters);
    const double each = drawn < all ? idle / (all - drawn) : real(spec.ffn_parameters) / all;
    const double shared = real(spec.ffn_active_parameters) - drawn * each;
    if (shared > 0) feed_forward(m, shared / tp_, 1);
    feed_forward(std::max<std::int64_t>(std::llround(real(m) * drawn / touched), 1), each / tp_,
                 std::llround(touched));
  }

  void prefill_layer() {
    const std::int64_t m = work_.new_tokens;
    const LayerSpec& spec = layer();
    if (m == 0) return;
    const std::int64_t prompts = std::max<std::int64_t>(work_.batch, 1);
    const std::int64_t cached = work_.context_tokens - m;
    KVLANE_CHECK(cached >= 0 && m % prompts == 0 && (prompts == 1 || cached == 0),
                 "{} prompts of {} tokens over {} keys", prompts, m, work_.context_tokens);
    before_attention(m);
    prefill_attention(spec, m / prompts, cached, prompts);
    after_attention(m);
  }

  // A query sees the last `window` keys. Tokens beyond the first window go in chunks of a window
  // behind half a window, which look at as many keys: w (w/2 + w/2) = w w.
  void prefill_attention(const LayerSpec& spec, std::int64_t tokens, std::int64_t cached,
                         std::int64_t prompts) {
    const bool latent = spec.attention == AttentionKind::latent;
    RankHeads heads = rank_heads(spec, tp_);
    if (latent) {
      // The cached latents are expanded to keys and values of every head.
      heads.kv = heads.query;
      gemm(cached, real(heads.query * (spec.head_dim + spec.value_head_dim)), spec.k_width);
    }
    const std::int64_t width = row_width(divide_up(spec.head_dim + spec.value_head_dim, 2));
    const auto causal = [&](std::int64_t sequences, std::int64_t fresh, std::int64_t before) {
      if (sequences == 0 || fresh == 0) return;
      if (before == 0) {
        add("prefill_attention", {sequences, fresh, heads.query, heads.kv, width});
      } else {
        add("prefix_attention", {sequences, fresh, before, heads.query, heads.kv, width});
      }
    };
    const bool windowed = spec.attention == AttentionKind::windowed && !cost_.windows_as_full();
    const std::int64_t window = windowed ? spec.window : 0;
    if (window <= 0 || cached + tokens <= window) return causal(prompts, tokens, cached);
    const std::int64_t growing = std::clamp<std::int64_t>(window - cached, 0, tokens);
    causal(prompts, growing, cached);
    const std::int64_t beyond = tokens - growing, rest = beyond % window;
    causal(prompts * (beyond / window), window, window / 2);
    causal(prompts, rest, window - rest / 2);
  }

  void decode_attention() {
    const LayerSpec& spec = layer();
    if (work_.batch == 0 || work_.attended_rows == 0) return;
    const bool latent = spec.attention == AttentionKind::latent;
    const RankHeads heads = rank_heads(spec, tp_);
    const double share = latent ? 1.0 : real(heads.kv) / real(spec.kv_heads);
    const double rows = real(work_.attended_rows) * share;
    const std::int64_t tokens =
        std::max<std::int64_t>(std::llround(rows / real(work_.batch * heads.kv)), 1);
    const std::int64_t width = row_width(divide_up(spec.k_width + spec.v_width, 2));
    if (work_.kv_bits == 16 || latent) {
      return add("decode_attention", {work_.batch, tokens, heads.query, heads.kv, width});
    }
    add("hack_attention", {work_.batch, hack_tokens(tokens), heads.query, heads.kv, width,
                           work_.kv_bits, work_.partition});
  }

  // The open partition is half full on average; a store is filled for few lengths only.
  std::int64_t hack_tokens(std::int64_t tokens) const {
    const std::int64_t whole = (tokens - kHackSinkTokens) / work_.partition;
    if (whole <= 0) return tokens;
    return kHackSinkTokens + whole * work_.partition + work_.partition / 2;
  }

  void build_metadata() {
    const LayerSpec& spec = layer();
    const std::int64_t m = work_.new_tokens, d = spec.k_width;
    if (m == 0) return;
    KVLANE_CHECK(work_.selector_bytes > 0, "selection metadata without a size");
    const RankHeads heads = rank_heads(spec, tp_);
    if (work_.hashed) return add("hata_encode", {m, heads.kv, heads.kv, d});
    const std::int64_t channels = std::clamp<std::int64_t>(work_.selector_bytes / 2, 1, d);
    // All channels of queries and keys, to pick from, then those of the keys that are kept.
    add("infinigen_project", {m, heads.query + heads.kv, heads.kv, d, d});
    add("infinigen_project", {m, heads.kv, heads.kv, d, channels});
  }

  // One kv head of 128 channels: the cost goes by elements.
  void quantise() {
    constexpr std::int64_t kChannels = 128;
    const std::int64_t elements = divide_up(work_.elements, tp_);
    if (elements == 0) return;
    add("hack_append",
        {1, divide_up(elements, 2 * kChannels), 1, kChannels, work_.kv_bits, work_.partition});
  }

  // Reads the packed values and writes 16 bits each; an `add` moves 6 bytes an element.
  void dequantise() {
    const std::int64_t elements = divide_up(work_.elements, tp_);
    if (elements == 0) return;
    const double packed = work_.kv_bits == 2 ? hack_bytes_per_element(work_.partition)
                                             : payload_bytes_per_element(work_.kv_bits);
    add("add", {std::max<std::int64_t>(std::llround(real(elements) * (2 + packed) / 6), 1)});
  }

  void head(std::int64_t batch) {
    if (batch == 0) return;
    const std::int64_t words = divide_up(model_.vocabulary, tp_);
    add("rms_norm", {batch, model_.hidden});
    gemm(batch, real(words), model_.hidden);
    add("topk", {batch, words, 1});
  }

  const Work& work_;
  const ModelSpec& model_;
  const CostModel& cost_;
  int tp_;
  const std::string& dtype_;
  std::vector<KernelStep> steps_;
};

}  // namespace

RankHeads rank_heads(const LayerSpec& layer, int tp) {
  RankHeads heads;
  // Fewer kv heads than ranks: a head is kept on several. A latent is on every rank.
  heads.kv = std::max<std::int64_t>(divide_up(layer.kv_heads, tp), 1);
  const std::int64_t query = std::max<std::int64_t>(divide_up(layer.query_heads, tp), 1);
  heads.query = divide_up(query, heads.kv) * heads.kv;
  return heads;
}

std::vector<std::size_t> like_layers(const ModelSpec& model) {
  std::vector<std::size_t> like;
  for (const LayerSpec& layer : model.layers) {
    const auto first = std::find(model.layers.begin(), model.layers.end(), layer);
    like.push_back(static_cast<std::size_t>(first - model.layers.begin()));
  }
  return like;
}

const char* to_string(WorkKind kind) {
  switch (kind) {
    case WorkKind::prefill_layer:
      return "prefill_layer";
    case WorkKind::prefill_head:
      return "prefill_head";
    case WorkKind::build_metadata:
      return "build_metadata";
    case WorkKind::quantise:
      return "quantise";
    case WorkKind::dequantise:
      return "dequantise";
    case WorkKind::decode_qkv:
      return "decode_qkv";
    case WorkKind::select:
      return "select";
    case WorkKind::decode_attention:
      return "decode_attention";
    case WorkKind::decode_ffn:
      return "decode_ffn";
    case WorkKind::decode_head:
      return "decode_head";
    case WorkKind::host_step:
      return "host_step";
    case WorkKind::gather_host:
      return "gather_host";
  }
  return "work";
}

std::vector<KernelStep> kernels_of(const Work& work, const CostModel& model,
                                   const std::string& gemm_dtype) {
  return Cut(work, model, gemm_dtype).steps();
}

}  // namespace kvlane::live
