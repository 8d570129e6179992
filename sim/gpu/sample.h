#pragma once
// One measurement: how long a kernel, copy, message or serving step of a known shape took on a
// machine. What `kvlane calibrate import` writes, `fit` and `validate` read, and a table is made
// of. Files: sim/scenario/sample_file.h.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvlane {

// Words of `Sample::kernel` and the dimensions of each, in the order of `Sample::shape`. All counts
// are those of one GPU (one tensor-parallel rank); sizes are bytes.
//   gemm               m, n, k                       [m x k] times [k x n]
//   prefill_attention  sequences, tokens, query_heads, kv_heads, head_width: causal, none cached
//   prefix_attention   sequences, new_tokens, cached_tokens, query_heads, kv_heads, head_width
//   decode_attention   sequences, kv_tokens (a sequence), query_heads, kv_heads, head_width
//   mixed_attention    new_tokens, cached_tokens, sequences, kv_tokens, query_heads, kv_heads,
//                      head_width: one chunk and decodes in one launch
//   elementwise        bytes                         norms, rotary embedding, activation, add
//   sampler            sequences, vocabulary
//   all_reduce         bytes, ranks                  of one rank's message; all_gather,
//   all_gather, reduce_scatter, all_to_all, send_recv: alike
//   nic_message        bytes, queue_pairs            time a message of a stream: 1 / message rate
//   nic_latency        bytes                         one way
//   kv_transfer        bytes, ports
//   copy               bytes                         host and device; the variant says which way
//   read               bytes                         memory alone, streaming
//   sparse_attention   sequences, kv_tokens, selected_tokens (a sequence and kv head), run_tokens
//                      (neighbours in the selection), query_heads, kv_heads, head_width
//   kv_gather          sequences, kv_tokens, selected_tokens, run_tokens, kv_heads, head_width;
//   kv_scatter         alike
//   hata_encode        tokens, heads, kv_heads, head_width      128-bit codes and norms
//   hata_score         sequences, kv_tokens, query_heads, kv_heads
//   infinigen_project  tokens, heads, kv_heads, head_width, channels
//   infinigen_score    sequences, kv_tokens, query_heads, kv_heads, channels
//   topk               rows, width, chosen
//   index_split        sequences, kv_heads, index_width, kv_tokens
//   hack_append        sequences, new_tokens, kv_heads, head_width, bits, partition
//   hack_attention     sequences, kv_tokens, query_heads, kv_heads, head_width, bits, partition;
//   hack_dequantise_attention      alike
//   rms_norm           rows, width                   gated_unit: alike
//   rope               tokens, heads, head_width
//   embedding          tokens, width
//   add                elements
//   serving_prefill    sequences, prompt_tokens, ranks        from start to the first tokens
//   serving_step       sequences, prompt_tokens, output_tokens, ranks   mean gap between tokens
//   serving_batch      sequences, prompt_tokens, output_tokens, ranks   a static batch, whole
const std::vector<std::string>& sample_kernels();
// Empty for an unknown kernel.
const std::vector<std::string>& sample_dimensions(std::string_view kernel);

// How a sample of `kvlane calibrate kernels` and its like was taken; all empty or 0 in imported
// ones. `memory_bytes` and `cache_bytes` (the last level) are the device's, `threads` the host's.
struct Conditions {
  double seconds_p25 = 0, seconds_p75 = 0;  // quartiles of the repetitions
  std::int64_t repetitions = 0;
  std::string commit;       // of the build that measured
  std::string driver;       // of the GPU; on a CPU the kernel's release
  std::string clock_state;  // governor or clocks, as far as the system tells
  std::string problem;      // what a reader must know: measured under load (--force)
  double load_average_1min = 0;
  std::int64_t threads = 0;
  std::int64_t multiprocessors = 0;  // of a GPU; 0: a CPU
  std::int64_t memory_bytes = 0, cache_bytes = 0;

  bool operator==(const Conditions&) const = default;
};

struct Sample {
  std::string machine;  // the `name` of a hardware file where there is one: "H100-SXM"
  std::string source;   // data set and commit
  std::string licence;  // SPDX, or what is known
  std::string variant;  // what ran: library, version, operation
  std::string kernel;
  std::vector<std::int64_t> shape;  // as sample_dimensions(kernel)
  std::string dtype;                // bf16, fp16, fp8, int8, fp32; "" for links
  double seconds = 0;
  std::string model;      // serving_*: the model's name, else empty
  std::string set_aside;  // the rule that keeps it out of fits; empty: none
  Conditions conditions = {};

  bool operator==(const Sample&) const = default;
};

// Taken by kvlane itself, every repetition on a cold cache; its `source` says so.
bool is_own(const Sample& sample);
inline bool is_own_cpu(const Sample& sample) {
  return is_own(sample) && sample.conditions.multiprocessors == 0;
}
inline constexpr const char* kOwnSource = "measured by kvlane";
// `set_aside` of own samples that would have taken too long: their time is that of the largest
// shape measured, in proportion to the work.
inline constexpr const char* kExtrapolated = "extrapolated";

// The value of a dimension; std::logic_error where the kernel has none of that name.
std::int64_t dimension(const Sample& sample, std::string_view name);

// "m=8 n=4096 k=14336".
std::string shape_text(const Sample& sample);

// Half of the shapes of a kernel, whatever the machine: these are never fitted to. By a hash of
// kernel, dtype and shape alone, so that all tables of one shape fall on the same side.
bool held_out(const Sample& sample);

}  // namespace kvlane
