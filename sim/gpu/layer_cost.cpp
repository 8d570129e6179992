// What a layer, a head and the selection of a model cost: which kernels, of which shapes.

#include <algorithm>
#include <cmath>

#include "sim/base/check.h"
#include "sim/gpu/cost_model.h"
#include "sim/gpu/portable_math.h"
#include "sim/kv/payload.h"

namespace kvlane {
namespace {

double real(std::int64_t v) { return static_cast<double>(v); }

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Launches beside the GEMMs and attention: two norms, rotary embedding with the write of K and V,
// activation, residual add. Splits into before and after attention.
constexpr int kKernelsBeforeAttention = 2;
constexpr int kKernelsAfterAttention = 3;
constexpr int kSamplingKernels = 3;  // softmax, top-p, draw

}  // namespace

const LayerSpec& CostModel::layer(const Work& work) const {
  KVLANE_CHECK(work.layer.is_valid() && work.layer.index() < model_.layers.size(),
               "{} has no layer {}", model_.name, work.layer.value());
  return model_.layers[work.layer.index()];
}

// Of one rank. Fewer kv heads than ranks: a head is kept on several. The latent is on every rank.
AttentionShape CostModel::shape_of(const LayerSpec& layer) const {
  AttentionShape shape;
  shape.heads = divide_up(layer.query_heads, tp_);
  shape.width = divide_up(layer.head_dim + layer.value_head_dim, 2);
  // In prefill the latent is expanded to K and V of every head.
  shape.kv_heads =
      layer.attention == AttentionKind::latent ? shape.heads : divide_up(layer.kv_heads, tp_);
  if (layer.attention == AttentionKind::windowed && !windows_as_full_) {
    shape.window = layer.window;
  }
  return shape;
}

// y = x W for m tokens and `parameters` weights with k inputs.
double CostModel::matrix(std::int64_t m, double parameters, std::int64_t k) const {
  if (parameters <= 0) return 0;
  return gemm(m, std::max<std::int64_t>(std::llround(parameters / real(k)), 1), k);
}

double CostModel::others(const LayerSpec& layer, std::int64_t m, double gemm_seconds, bool before,
                         bool after) const {
  if (!costs({"rms_norm", "rope", "gated_unit", "add"})) {
    const int kernels =
        (before ? kKernelsBeforeAttention : 0) + (after ? kKernelsAfterAttention : 0);
    return std::max(gpu_.other_share * gemm_seconds, kernels * gpu_.small_kernel_t0);
  }
  const double norm = costed("rms_norm", {m, model_.hidden});
  double t = 0;
  if (before) {
    const std::int64_t heads = divide_up(layer.query_heads, tp_) + divide_up(layer.kv_heads, tp_);
    t += norm + costed("rope", {m, heads, std::max<std::int64_t>(layer.head_dim, 1)});
  }
  if (after) {
    const std::int64_t width = divide_up(layer.ffn_active_parameters, 3 * model_.hidden * tp_);
    t += norm + costed("gated_unit", {m, width}) + 2 * costed("add", {m * model_.hidden});
  }
  return t;
}

double CostModel::qkv(const LayerSpec& layer, std::int64_t m) const {
  const double output = std::min(real(layer.query_heads * layer.value_head_dim * model_.hidden),
                                 real(layer.attention_parameters));
  return matrix(m, (real(layer.attention_parameters) - output) / tp_, model_.hidden);
}

// Routed experts: m tokens draw k of E experts each, so that E (1 - (1 - k/E)^m) of them are read
// on average; router and shared experts always are.
double CostModel::moe(const LayerSpec& layer, std::int64_t m) const {
  const double experts = real(layer.ffn_experts);
  const double per_token = std::min(real(layer.ffn_experts_per_token), experts);
  const double idle_share = 1 - per_token / experts;
  const double touched = experts * (1 - portable::pow(idle_share, real(m)));
  const double idle_parameters = real(layer.ffn_parameters - layer.ffn_active_parameters);
  const double per_expert = per_token < experts ? idle_parameters / (experts - per_token)
                                                : real(layer.ffn_parameters) / experts;
  const double shared = std::max(real(layer.ffn_active_parameters) - per_token * per_expert, 0.0);
  const double weights = (shared + touched * per_expert) / tp_;
  const double flops = 2 * real(m) * real(layer.ffn_active_parameters) / tp_;
  const double activations = 2 * real(m) * real(model_.hidden) * 2 * (per_token + 1);
  usage_.experts = true;
  return 2 * gpu_.gemm_t0 + roofline(flops, weights * model_.weight_bytes + activations);
}

// Without what stands beside the GEMMs, and without collectives.
double CostModel::output_and_ffn(const LayerSpec& layer, std::int64_t m) const {
  const std::int64_t output_inputs = divide_up(layer.query_heads * layer.value_head_dim, tp_);
  const double output =
      std::min(real(output_inputs * model_.hidden), real(layer.attention_parameters));
  double t = output_inputs > 0 ? matrix(m, output, output_inputs) : 0;
  if (layer.ffn_experts > 0) return t + moe(layer, m);
  // Two thirds up and gate, one third down; a plain FFN has the same FLOPs and weights.
  const double ffn = real(layer.ffn_parameters) / tp_;
  t += matrix(m, ffn * 2 / 3, model_.hidden);
  t += gemm(m, model_.hidden, std::llround(ffn / 3 / real(model_.hidden)));
  return t;
}

double CostModel::attention(const LayerSpec& layer, std::int64_t chunk, std::int64_t cached,
                            std::int64_t prompts) const {
  if (layer.attention == AttentionKind::linear) {
    // Chunked scan: decay, update and read of the float32 state, 2 FLOPs each, a token.
    const double flops = 6 * real(chunk) * real(layer.state.count()) / 4 / tp_;
    const double traffic = 8 * real(chunk) * real(model_.hidden) / tp_;
    return counted(
        KernelClass::prefill_attention,
        gpu_.prefill_t0 + flops / (gpu_.prefill_ec * gpu_.peak_flops) + elementwise(traffic));
  }
  AttentionShape shape = shape_of(layer);
  if (cached == 0) {
    // Prompts of one launch do not look at each other: so many times the heads.
    shape.heads *= prompts;
    shape.kv_heads *= prompts;
    return counted(KernelClass::prefill_attention, prefill_attention(shape, chunk / prompts));
  }
  // Launches of the two kernels may be fitted to different libraries; one that serves has one.
  const double with_prefix =
      std::max(prefix_attention(shape, chunk, cached), prefill_formula(shape, chunk));
  double t = counted(KernelClass::prefix_attention, with_prefix);
  if (layer.attention == AttentionKind::latent) {
    // The cached latents are expanded again; those of the new tokens are part of the projections.
    t +=
        counted(KernelClass::gemm,
                gemm(cached, shape.heads * (layer.head_dim + layer.value_head_dim), layer.k_width));
  }
  return t;
}

double CostModel::prefill_layer(const Work& work) const {
  const LayerSpec& spec = layer(work);
  const std::int64_t m = work.new_tokens;
  if (m == 0) return 0;
  KVLANE_CHECK(work.context_tokens >= m, "{} keys for {} new tokens", work.context_tokens, m);
  const std::int64_t prompts = std::max<std::int64_t>(work.batch, 1);
  KVLANE_CHECK(prompts == 1 || (work.context_tokens == m && m % prompts == 0),
               "{} prompts of {} tokens over {} keys", prompts, m, work.context_tokens);
  const double gemms = qkv(spec, m) + output_and_ffn(spec, m);
  const double collectives = 2 * all_reduce(2 * real(m) * real(model_.hidden));
  const double small = others(spec, m, gemms, true, true);
  return counted(KernelClass::gemm, gemms) + counted(KernelClass::small, small) +
         attention(spec, m, work.context_tokens - m, prompts) +
         counted(KernelClass::collective, collectives);
}

double CostModel::decode_rows(const Work& work) const {
  const LayerSpec& spec = layer(work);
  if (spec.attention == AttentionKind::linear) {  // the state is read and written once
    usage_.decode_16_bit = true;
    return gpu_.decode_t0 + 2 * real(work.batch) * real(spec.state.count()) / tp_ /
                                (gpu_.decode_em * gpu_.memory_bandwidth);
  }
  const bool latent = spec.attention == AttentionKind::latent;
  const double share = latent ? 1.0 : real(divide_up(spec.kv_heads, tp_)) / real(spec.kv_heads);
  const double rows = real(work.attended_rows) * share;
  const double width = real(spec.k_width + spec.v_width);
  const std::int64_t group = divide_up(spec.query_heads, spec.kv_heads * (latent ? tp_ : 1));
  if (work.kv_bits == 2 && !latent && costs({"hack_attention"})) {
    const std::int64_t kv_heads = divide_up(spec.kv_heads, tp_);
    const double tokens = rows / (real(work.batch) * real(kv_heads));
    return costed("hack_attention", {work.batch, std::llround(tokens), kv_heads * group, kv_heads,
                                     divide_up(spec.k_width + spec.v_width, 2), 2, work.partition});
  }
  double bytes = 0;
  double unpack = 0;
  if (work.kv_bits == 16) {
    bytes = rows * width * model_.kv_element_bytes;
  } else if (work.kv_bits == 2) {
    // Packed rows with their scales, minima and sums; a sequence's sinks and open partition, half
    // full on average, are read in 16 bit as well.
    const double open = real(work.batch * spec.kv_heads) * share *
                        (real(kHackSinkTokens) + real(work.partition - 1) / 2);
    bytes = std::max(rows - open, 0.0) * width * hack_bytes_per_element(work.partition) +
            std::min(open, rows) * width * 2;
    // Values are unpacked to int8 and corrected by sums, whatever the memory could do.
    unpack = rows * width / gpu_.hack_unpack_rate;
  } else {
    bytes = rows * width * payload_bytes_per_element(work.kv_bits);
  }
  // Scores and values: the latent serves as both, at its own width.
  const double flops = rows * real(group) * 2 * (latent ? 2 * width : width);
  const double ec = gpu_.decode_ec > 0 ? gpu_.decode_ec : gpu_.prefill_ec;
  const double compute = flops / (ec * gpu_.peak_flops);
  DecodeShape shape;
  shape.sequences = real(work.batch);
  shape.kv_heads = latent ? 1 : real(divide_up(spec.kv_heads, tp_));
  shape.kv_tokens = rows / (shape.sequences * shape.kv_heads);
  shape.group = real(group);
  shape.kv_bytes = bytes;
  shape.fp8 = work.kv_bits == 8 || (work.kv_bits == 16 && model_.kv_element_bytes == 1);
  if (!latent && spec.k_width == spec.v_width && (work.kv_bits == 16 || work.kv_bits == 8)) {
    shape.width = spec.k_width;
  }
  (shape.fp8 && gpu_.decode_fp8_em > 0 ? usage_.decode_8_bit : usage_.decode_16_bit) = true;
  usage_.decode_unsplit |= group == 1;
  usage_.unpacks |= unpack > 0;
  return std::max(decode_attention(shape), gpu_.decode_t0 + std::max(compute, unpack));
}

double CostModel::head(std::int64_t batch) const {
  if (batch == 0) return 0;
  const std::int64_t words = divide_up(model_.vocabulary, tp_);
  const double logits = real(batch) * real(model_.vocabulary) * 4 * kSamplingKernels;
  return counted(KernelClass::gemm, gemm(batch, words, model_.hidden)) +
         counted(KernelClass::small, elementwise(logits)) +
         counted(KernelClass::small, (kSamplingKernels + 1) * gpu_.small_kernel_t0) +
         counted(KernelClass::collective, tp_ > 1 ? all_reduce(4 * real(batch) * real(words)) : 0);
}

// Selection by kernels that were measured: the scores of all rows, the best fifth of them (the
// share of the published settings), their split into local and remote.
double CostModel::costed_select(const LayerSpec& spec, const Work& work) const {
  const std::int64_t b = work.batch, d = spec.k_width;
  const std::int64_t heads = divide_up(spec.query_heads, tp_);
  const std::int64_t kv_heads = divide_up(spec.kv_heads, tp_);
  const std::int64_t tokens = std::max<std::int64_t>(work.context_tokens / b, 1);
  const std::int64_t chosen = std::max<std::int64_t>(tokens / 5, 1);
  const double rest = costed("topk", {b * kv_heads, tokens, chosen}) +
                      costed("index_split", {b, kv_heads, chosen, tokens});
  if (work.hashed) {
    return costed("hata_encode", {b, heads, kv_heads, d}) +
           costed("hata_encode", {b, kv_heads, kv_heads, d}) +
           costed("hata_score", {b, tokens, heads, kv_heads}) + rest;
  }
  const std::int64_t channels = std::max(work.selector_bytes / 2, 1);
  return gemm(b, heads * d, model_.hidden) +  // the next layer's W_q
         costed("infinigen_project", {b, heads, kv_heads, d, channels}) +
         costed("infinigen_score", {b, tokens, heads, kv_heads, channels}) + rest;
}

// InfiniGen with rotary embeddings (arXiv 2406.19707) and HATA (arXiv 2506.02572), costs a layer
// and decode step.
double CostModel::select(const Work& work) const {
  const LayerSpec& spec = layer(work);
  KVLANE_CHECK(work.selector_bytes > 0, "selection without metadata");
  if (costs({"topk", "index_split"}) &&
      (work.hashed ? costs({"hata_encode", "hata_score"})
                   : costs({"infinigen_project", "infinigen_score"}))) {
    return costed_select(spec, work);
  }
  const double n = real(work.context_tokens);  // over the batch
  const double b = real(work.batch);
  const double heads = real(divide_up(spec.query_heads, tp_));
  const double kv_heads = real(divide_up(spec.kv_heads, tp_));
  const double d = real(spec.k_width);
  const double metadata = n * kv_heads * work.selector_bytes;
  // Group sums in float32: written once, read twice by a radix top-k.
  const double top_k = elementwise(n * kv_heads * 4 * 3);
  if (work.hashed) {
    const double bits = 128;
    const double hash = roofline(2 * b * (heads + kv_heads) * d * bits, kv_heads * d * bits * 2);
    // Encode, score, top-k in two passes.
    return hash + elementwise(metadata) + top_k + 4 * gpu_.small_kernel_t0;
  }
  const double partial = work.selector_bytes / 2.0;  // channels
  const double query =
      gemm(work.batch, std::llround(heads * d), model_.hidden) +  // the next layer's W_q
      roofline(2 * b * heads * d * d, heads * d * d * 2);         // skew after rotation
  const double scores = std::max(elementwise(metadata), roofline(2 * heads * partial * n, 0));
  const double softmax = elementwise(n * heads * 2 * 2);
  // Rotation and skew, scores, softmax with group sum, top-k in two passes.
  return query + scores + softmax + top_k + 5 * gpu_.small_kernel_t0;
}

double CostModel::build_metadata(const Work& work) const {
  const LayerSpec& spec = layer(work);
  if (work.new_tokens == 0) return 0;
  KVLANE_CHECK(work.selector_bytes > 0, "selection metadata without a size");
  if (costs({work.hashed ? "hata_encode" : "infinigen_project"})) {
    const std::int64_t query = divide_up(spec.query_heads, tp_);
    const std::int64_t own = divide_up(spec.kv_heads, tp_);
    if (work.hashed) return costed("hata_encode", {work.new_tokens, own, own, spec.k_width});
    const std::int64_t channels = std::max(work.selector_bytes / 2, 1);
    // All channels of queries and keys, to pick from; what is picked is part of the keys'.
    return costed("infinigen_project",
                  {work.new_tokens, query + own, own, spec.k_width, spec.k_width}) +
           costed("infinigen_project", {work.new_tokens, own, own, spec.k_width, channels});
  }
  const double m = real(work.new_tokens);
  const double heads = real(divide_up(spec.query_heads, tp_));
  const double kv_heads = real(divide_up(spec.kv_heads, tp_));
  const double d = real(spec.k_width);
  const double written = m * kv_heads * work.selector_bytes;
  if (work.hashed) {
    const double bits = 128;
    return roofline(2 * m * kv_heads * d * bits, m * kv_heads * d * 2 + written) +
           2 * gpu_.small_kernel_t0;
  }
  // Skew Q and K, sum |Q| by channel, pick the channels, copy them out of K.
  const double skew = roofline(2 * m * (heads + kv_heads) * d * d, m * (heads + kv_heads) * d * 4);
  return skew + elementwise(m * heads * d * 2 + m * kv_heads * d * 2 + written) +
         4 * gpu_.small_kernel_t0;
}

double CostModel::convert(const Work& work) const {
  if (work.elements == 0) return 0;
  const std::int64_t elements = divide_up(work.elements, tp_);
  if (work.kind == WorkKind::quantise && work.kv_bits == 2 && costs({"hack_append"})) {
    // One kv head of 128 channels: the cost goes by elements.
    return costed("hack_append", {1, divide_up(elements, 2 * 128), 1, 128, 2, work.partition});
  }
  const double packed = work.kv_bits == 2 ? hack_bytes_per_element(work.partition)
                                          : payload_bytes_per_element(work.kv_bits);
  return elementwise(real(elements) * (2 + packed)) + 2 * gpu_.small_kernel_t0;
}

double CostModel::seconds(const Work& work) const {
  switch (work.kind) {
    case WorkKind::prefill_layer:
      return prefill_layer(work);
    case WorkKind::prefill_head:
      return head(std::max<std::int64_t>(work.batch, 1));
    case WorkKind::build_metadata:
      return counted(KernelClass::selection, build_metadata(work));
    case WorkKind::quantise:
    case WorkKind::dequantise:
      return counted(KernelClass::quantise, convert(work));
    case WorkKind::decode_qkv: {
      const double gemms = qkv(layer(work), work.batch);
      if (work.batch == 0) return 0;
      return counted(KernelClass::gemm, gemms) +
             counted(KernelClass::small, others(layer(work), work.batch, gemms, true, false));
    }
    case WorkKind::select:
      return work.batch == 0 ? 0 : counted(KernelClass::selection, select(work));
    case WorkKind::decode_attention:
      return work.batch == 0 ? 0 : counted(KernelClass::decode_attention, decode_rows(work));
    case WorkKind::decode_ffn: {
      if (work.batch == 0) return 0;
      const double gemms = output_and_ffn(layer(work), work.batch);
      return counted(KernelClass::gemm, gemms) +
             counted(KernelClass::small, others(layer(work), work.batch, gemms, false, true)) +
             counted(KernelClass::collective,
                     2 * all_reduce(2 * real(work.batch) * real(model_.hidden)));
    }
    case WorkKind::decode_head:
      return head(work.batch);
    case WorkKind::host_step:
      return counted(KernelClass::host, gpu_.host_step);
    case WorkKind::gather_host:
      return gpu_.host_gather_bandwidth > 0 ? real(work.bytes.count()) / gpu_.host_gather_bandwidth
                                            : 0;
  }
  return 0;
}

Duration CostModel::expected(const Work& work) const {
  KVLANE_CHECK(work.batch >= 0 && work.new_tokens >= 0 && work.context_tokens >= 0 &&
                   work.attended_rows >= 0 && work.elements >= 0 && work.bytes.count() >= 0,
               "work of a negative size");
  return seconds_to_duration(seconds(work));
}

Duration CostModel::duration(const Work& work) const {
  const Duration alone = expected(work);
  const std::optional<double> factor = table_ == nullptr ? std::nullopt : table_->work_factor(work);
  return factor ? seconds_to_duration(to_seconds(alone) * *factor) : alone;
}

}  // namespace kvlane
