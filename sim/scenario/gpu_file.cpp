#include "sim/scenario/gpu_file.h"

#include <algorithm>
#include <iterator>

#include "sim/base/check.h"
#include "sim/gpu/kernel_work.h"

namespace kvlane {
namespace {

using enum Need;

// A member of the GpuSpec inside a GpuFile.
template <class T>
auto of_spec(T GpuSpec::*member) {
  return [member](GpuFile& file) -> T& { return file.spec.*member; };
}

template <class T>
auto of_cost(T KernelCost::*member) {
  return [member](KernelCostRow& row) -> T& { return row.cost.*member; };
}

const Mapping<AllReduceRow>& all_reduce_mapping() {
  static const Mapping<AllReduceRow> table =
      Mapping<AllReduceRow>("all-reduce", "All-reduce over a number of GPUs of one instance.")
          .sources(SourceRule::required,
                   [](AllReduceRow& row, const std::string& key, const SourceNote& note) {
                     row.notes.emplace_back(key, note);
                   })
          .custom("ranks", ValueType::Kind::integer, required, "GPUs that take part.",
                  [](AllReduceRow& row, const YamlNode& node) {
                    row.ranks = static_cast<int>(read_integer(node, {2, 1024}));
                  })
          .quantity("latency", &AllReduceRow::latency, UnitFamily::time, required,
                    "Time of a small message; at most 1 s.", kShortTime)
          .quantity("rate", &AllReduceRow::rate, UnitFamily::byte_rate, required,
                    "Bytes of the message a second beyond that, at least 1 MB/s.", kMemoryRate);
  return table;
}

constexpr Range kExponent{1, 1000};

const Mapping<KernelCostRow>& kernel_cost_mapping() {
  static const Mapping<KernelCostRow> table = [] {
    std::vector<std::pair<std::string, std::string>> words;
    for (const std::string& kernel : costed_kernels()) words.emplace_back(kernel, kernel);
    return Mapping<KernelCostRow>(
               "kernel cost",
               "A measured kernel of F operations, B bytes and N pieces: t = launch + "
               "max_p(F/rate, B/bandwidth, N item).")
        .sources(SourceRule::required,
                 [](KernelCostRow& row, const std::string& key, const SourceNote& note) {
                   row.notes.emplace_back(key, note);
                 })
        .words("kernel", &KernelCostRow::kernel, words, required, "Its word in samples.")
        .quantity("launch", of_cost(&KernelCost::t0), UnitFamily::time, required,
                  "Least time; at most 1 s.", kShortTime)
        .quantity("rate", of_cost(&KernelCost::flops), UnitFamily::compute, optional,
                  "Operations a second. Without: they hide behind the other terms.",
                  {1e6, kComputeRate.high})
        .quantity("bandwidth", of_cost(&KernelCost::bandwidth), UnitFamily::byte_rate, optional,
                  "Bytes a second.", kMemoryRate)
        .quantity("item", of_cost(&KernelCost::item), UnitFamily::time, optional,
                  "Time a piece: a row, a run of rows; at most 1 s.", kShortTime)
        .quantity("wake", of_cost(&KernelCost::wake), UnitFamily::time, optional,
                  "Time to wake the other threads, from `alone` bytes on; at most 1 s.", kShortTime)
        .quantity("alone", of_cost(&KernelCost::alone), UnitFamily::size, optional,
                  "Bytes up to which one thread does the work.", {0, 1e15})
        .number("exponent", of_cost(&KernelCost::p), required, "Of the smooth maximum.", kExponent);
  }();
  return table;
}

const Mapping<DomainRange>& domain_mapping() {
  static const Mapping<DomainRange> table =
      Mapping<DomainRange>("domain", "Sizes that a fit covers.")
          .text("dimension", &DomainRange::dimension, required,
                "gemm: m, n, k; prefill_attention: tokens; prefix_attention: new_tokens, "
                "cached_tokens; decode_attention: sequences, kv_tokens; collective: bytes.")
          .number("low", &DomainRange::low, required, "Smallest size.", {0, 1e15})
          .number("high", &DomainRange::high, required, "Largest size.", {0, 1e15});
  return table;
}

std::vector<std::pair<std::string, KernelClass>> kernel_words() {
  std::vector<std::pair<std::string, KernelClass>> words;
  for (std::size_t k = 0; k < kKernelClasses; ++k) {
    const auto kernel = static_cast<KernelClass>(k);
    words.emplace_back(to_string(kernel), kernel);
  }
  return words;
}

const Mapping<KernelFitRow>& kernel_fit_mapping() {
  static const Mapping<KernelFitRow> table =
      Mapping<KernelFitRow>("kernel fit", "What the fit of a kernel class leaves open.")
          .sources(SourceRule::required, [](KernelFitRow& row, const std::string&,
                                            const SourceNote& note) { row.note = note; })
          .words("kernel", &KernelFitRow::kernel, kernel_words(), required, "Kernel class.")
          .share(
              "error", &KernelFitRow::error, required,
              "Mean absolute error on shapes held out of the fit; what `run --uncertainty` draws "
              "from.",
              {0, 2})
          .list("domain", &KernelFitRow::domain, domain_mapping(), optional,
                "Sizes that the fit covers; a run that leaves them says so.", {0, 3});
  return table;
}

constexpr Range kEfficiency{0.001, 1.2};   // fits on boost clocks can exceed the datasheet
constexpr Range kPrefillMemory{0.001, 3};  // short prompts are read from L2

}  // namespace

const Mapping<GpuFile>& gpu_mapping() {
  static const Mapping<GpuFile> table =
      Mapping<GpuFile>("gpu", "A GPU with the host side of its PCIe link.")
          .sources(SourceRule::required,
                   [](GpuFile& file, const std::string& key, const SourceNote& note) {
                     file.spec.source[key] = note.source;
                     file.spec.source_text[key] = note.from;
                   })
          .text("name", of_spec(&GpuSpec::name), required, "Name of the GPU.")
          .quantity("peak_flops", of_spec(&GpuSpec::peak_flops), UnitFamily::compute, required,
                    "Dense bf16 or fp16 tensor peak, at least 1 GFLOPS.", kComputeRate)
          .quantity("peak_int8_ops", of_spec(&GpuSpec::peak_int8_ops), UnitFamily::compute,
                    required, "Dense int8 tensor peak, at least 1 GOPS; 0 OPS: none.",
                    {kComputeRate.low, kComputeRate.high, false, true})
          .quantity("memory_bandwidth", of_spec(&GpuSpec::memory_bandwidth), UnitFamily::byte_rate,
                    required, "Datasheet bandwidth of the memory, at least 1 MB/s.", kMemoryRate)
          .quantity("memory", of_spec(&GpuSpec::memory), required, "Size of the memory.",
                    kMemorySize)
          .integer("sm_count", of_spec(&GpuSpec::sm_count), required, "Multiprocessors.",
                   {1, 100'000})
          .quantity("l2", of_spec(&GpuSpec::l2), required, "Size of the L2 cache.", {0, 1e12})
          .quantity("pcie_h2d", of_spec(&GpuSpec::pcie_h2d), required,
                    "Host to device, pinned, large copies; at least 1 MB/s.", kMemoryBits)
          .quantity("pcie_d2h", of_spec(&GpuSpec::pcie_d2h), required,
                    "Device to host, pinned, large copies; at least 1 MB/s.", kMemoryBits)
          .quantity("pcie_copy", of_spec(&GpuSpec::pcie_copy), required, "Fixed cost of one copy.",
                    kShortTime)
          .quantity(
              "host_memory", of_spec(&GpuSpec::host_memory), required,
              "Memory bandwidth of the instance's host, read and write together, at least 1 MB/s.",
              kMemoryBits)
          .quantity("gemm_t0", of_spec(&GpuSpec::gemm_t0), UnitFamily::time, required,
                    "GEMM: launch; like all launches at most 1 s.", kShortTime)
          .share("gemm_ec", of_spec(&GpuSpec::gemm_ec), required, "GEMM: share of the tensor peak.",
                 kEfficiency)
          .share("gemm_em", of_spec(&GpuSpec::gemm_em), required,
                 "GEMM: share of the memory bandwidth.", kEfficiency)
          .number("gemm_p", of_spec(&GpuSpec::gemm_p), required,
                  "GEMM: exponent of the smooth maximum of compute and memory time.", kExponent)
          .quantity("peak_fp8_flops", of_spec(&GpuSpec::peak_fp8_flops), UnitFamily::compute,
                    optional,
                    "Dense fp8 tensor peak, at least 1 GFLOPS, with the four gemm_fp8 keys.",
                    kComputeRate)
          .quantity("gemm_fp8_t0", of_spec(&GpuSpec::gemm_fp8_t0), UnitFamily::time, optional,
                    "GEMM with fp8 weights and activations: launch.", kShortTime)
          .share("gemm_fp8_ec", of_spec(&GpuSpec::gemm_fp8_ec), optional,
                 "fp8 GEMM: share of the fp8 peak.", kEfficiency)
          .share("gemm_fp8_em", of_spec(&GpuSpec::gemm_fp8_em), optional,
                 "fp8 GEMM: share of the memory bandwidth.", kEfficiency)
          .number("gemm_fp8_p", of_spec(&GpuSpec::gemm_fp8_p), optional,
                  "fp8 GEMM: exponent of the smooth maximum.", kExponent)
          .quantity("prefill_t0", of_spec(&GpuSpec::prefill_t0), UnitFamily::time, required,
                    "Prefill attention: launch.", kShortTime)
          .share("prefill_ec", of_spec(&GpuSpec::prefill_ec), required,
                 "Prefill attention: share of the tensor peak when it fills the GPU.", kEfficiency)
          .share("prefill_em", of_spec(&GpuSpec::prefill_em), required,
                 "Prefill attention: share of the memory bandwidth.", kPrefillMemory)
          .number("prefill_p", of_spec(&GpuSpec::prefill_p), required,
                  "Prefill attention: exponent of the smooth maximum of compute and memory time.",
                  kExponent)
          .number("prefill_s0", of_spec(&GpuSpec::prefill_s0), required,
                  "Prefill attention: tokens of extra work a query, at most 1000000.", {0, 1e6})
          .number("prefill_w0", of_spec(&GpuSpec::prefill_w0), required,
                  "Prefill attention: waves of tiles at which half of the GPU is used.", {0, 1e6})
          .quantity("prefix_t0", of_spec(&GpuSpec::prefix_t0), UnitFamily::time, required,
                    "Attention with a cached prefix: launch.", kShortTime)
          .share("prefix_ec", of_spec(&GpuSpec::prefix_ec), required,
                 "Attention with a cached prefix: share of the tensor peak.", kEfficiency)
          .quantity("prefix_kappa", of_spec(&GpuSpec::prefix_kappa), UnitFamily::time, required,
                    "Attention with a cached prefix: time a key of the serial walk, at most 1 ms.",
                    {0, 1e-3})
          .number(
              "prefix_p", of_spec(&GpuSpec::prefix_p), required,
              "Attention with a cached prefix: exponent of the smooth maximum of compute and walk.",
              kExponent)
          .quantity("decode_t0", of_spec(&GpuSpec::decode_t0), UnitFamily::time, required,
                    "Decode attention: launch.", kShortTime)
          .share("decode_em", of_spec(&GpuSpec::decode_em), required,
                 "Decode attention: share of the memory bandwidth.", kEfficiency)
          .quantity("decode_block", of_spec(&GpuSpec::decode_block), UnitFamily::time, required,
                    "Decode attention: least time a sequence and kv head, over the whole GPU.",
                    {0, 1e-3})
          .quantity("decode_walk", of_spec(&GpuSpec::decode_walk), UnitFamily::time, required,
                    "Decode attention where a kv head serves one query head: time a key, since the "
                    "kernel does not split them; 0 ns: it does.",
                    {0, 1e-3})
          .number("decode_p", of_spec(&GpuSpec::decode_p), required,
                  "Decode attention: exponent of the smooth maximum.", kExponent)
          .share("decode_ec", of_spec(&GpuSpec::decode_ec), optional,
                 "Decode attention: share of the peak with which it computes. Without: the bytes "
                 "hide it.",
                 kEfficiency)
          .quantity("decode_fp8_t0", of_spec(&GpuSpec::decode_fp8_t0), UnitFamily::time, optional,
                    "Decode attention over 8-bit KV: launch.", kShortTime)
          .share("decode_fp8_em", of_spec(&GpuSpec::decode_fp8_em), optional,
                 "Decode attention over 8-bit KV: share of the memory bandwidth.", kEfficiency)
          .share("mixed_em", of_spec(&GpuSpec::mixed_em), optional,
                 "A chunk and decodes in one launch: share of the memory bandwidth.", kEfficiency)
          .quantity(
              "hack_unpack_rate", of_spec(&GpuSpec::hack_unpack_rate), UnitFamily::compute,
              required,
              "2-bit values that HACK's kernel unpacks and corrects a second, at least 1 GOPS.",
              kComputeRate)
          .quantity("small_kernel_t0", of_spec(&GpuSpec::small_kernel_t0), UnitFamily::time,
                    required, "A kernel that moves next to nothing.", kShortTime)
          .share("elementwise_em", of_spec(&GpuSpec::elementwise_em), required,
                 "Elementwise kernels: share of the memory bandwidth.", kEfficiency)
          .share("other_share", of_spec(&GpuSpec::other_share), required,
                 "Norms, rotary embedding, activation and adds, as a share of GEMM time.")
          .quantity(
              "host_step", of_spec(&GpuSpec::host_step), UnitFamily::time, required,
              "Scheduler and launch overhead of a decode iteration that the GPU waits for; at most "
              "1 h.",
              kHostTime)
          .quantity("host_gather_bandwidth", of_spec(&GpuSpec::host_gather_bandwidth),
                    UnitFamily::byte_rate, required,
                    "Bytes of rows that the host collects a second, at least 1 MB/s.", kMemoryRate)
          .boolean("concurrent_streams", of_spec(&GpuSpec::concurrent_streams), optional,
                   "Selection runs beside the layer at hand; without, it takes its turn.")
          .default_value("true")
          .list("all_reduce", &GpuFile::all_reduce, all_reduce_mapping(), optional,
                "Collectives of tensor parallelism; a degree that is not listed cannot be used.",
                {0, 64})
          .list("kernel_costs", &GpuFile::costs, kernel_cost_mapping(), optional,
                "Kernels of selection, quantisation and layers as measured.", {0, 64})
          .list("kernels", &GpuFile::kernels, kernel_fit_mapping(), optional,
                "What the fits leave open: error and domain of each kernel class.",
                {0, kKernelClasses});
  return table;
}

namespace {

// All of the fp8 keys or none: one without the others would be a silent default.
void check_fp8(const YamlNode& root, const GpuSpec& spec) {
  const char* const keys[] = {"peak_fp8_flops", "gemm_fp8_t0", "gemm_fp8_ec", "gemm_fp8_em",
                              "gemm_fp8_p"};
  const auto has = [&](const char* key) { return root.find(key) != nullptr; };
  const auto present = std::count_if(std::begin(keys), std::end(keys), has);
  if (present != 0 && present != std::ssize(keys)) {
    throw InputError(root.place, fmt::format("{} of the five keys of fp8 GEMM", present),
                     fmt::format("expected all of {} or none", fmt::join(keys, ", ")));
  }
  if (has("decode_fp8_t0") != has("decode_fp8_em")) {
    throw InputError(root.place, "one of decode_fp8_t0 and decode_fp8_em", "expected both or none");
  }
  KVLANE_CHECK(present == 0 || spec.gemm_fp8_p >= 1, "an fp8 exponent below 1");
}

void add_costs(const YamlNode& root, GpuFile& file) {
  for (std::size_t i = 0; i < file.costs.size(); ++i) {
    const KernelCostRow& row = file.costs[i];
    const SourcePlace place = node_at(root, {"kernel_costs", i, "kernel"}).place;
    if (row.cost.flops == 0 && row.cost.bandwidth == 0 && row.cost.item == 0) {
      throw InputError(place, fmt::format("`{}` that costs a launch only", row.kernel),
                       "expected rate, bandwidth or item");
    }
    if (!file.spec.costs.emplace(row.kernel, row.cost).second) {
      throw InputError(place, fmt::format("kernel `{}` a second time", row.kernel),
                       "expected every kernel once");
    }
    for (const auto& [key, note] : row.notes) {
      const std::string name = fmt::format("kernel_costs.{}.{}", row.kernel, key);
      file.spec.source[name] = note.source;
      file.spec.source_text[name] = note.from;
    }
  }
}

void add_fits(const YamlNode& root, GpuFile& file) {
  for (std::size_t i = 0; i < file.kernels.size(); ++i) {
    KernelFitRow& row = file.kernels[i];
    const std::vector<std::string>& dimensions = domain_dimensions(row.kernel);
    for (std::size_t d = 0; d < row.domain.size(); ++d) {
      const DomainRange& range = row.domain[d];
      const auto known = std::find(dimensions.begin(), dimensions.end(), range.dimension);
      if (known == dimensions.end()) {
        throw InputError(
            node_at(root, {"kernels", i, "domain", d, "dimension"}).place,
            fmt::format("dimension `{}` of {}", range.dimension, to_string(row.kernel)),
            dimensions.empty() ? std::string("expected no domain: its kernels have no sizes here")
                               : fmt::format("expected {}", fmt::join(dimensions, ", ")));
      }
      if (range.low > range.high) {
        throw InputError(node_at(root, {"kernels", i, "domain", d, "high"}).place,
                         fmt::format("high {} below low {}", range.high, range.low),
                         "expected a range");
      }
      for (std::size_t e = 0; e < d; ++e) {
        if (row.domain[e].dimension == range.dimension) {
          throw InputError(node_at(root, {"kernels", i, "domain", d, "dimension"}).place,
                           fmt::format("dimension `{}` a second time", range.dimension),
                           "expected every dimension once");
        }
      }
    }
    if (!file.spec.fits.emplace(row.kernel, KernelFit{row.error, std::move(row.domain)}).second) {
      throw InputError(node_at(root, {"kernels", i, "kernel"}).place,
                       fmt::format("kernel `{}` a second time", to_string(row.kernel)),
                       "expected every kernel class once");
    }
    const std::string key = fmt::format("kernels.{}.error", to_string(row.kernel));
    file.spec.source[key] = row.note.source;
    file.spec.source_text[key] = row.note.from;
  }
}

}  // namespace

GpuSpec gpu_from_yaml(const YamlNode& root) {
  GpuFile file;
  gpu_mapping().read(root, file);
  for (std::size_t i = 0; i < file.all_reduce.size(); ++i) {
    const AllReduceRow& row = file.all_reduce[i];
    if (!file.spec.all_reduce.emplace(row.ranks, std::pair(row.latency, row.rate)).second) {
      throw InputError(node_at(root, {"all_reduce", i, "ranks"}).place,
                       fmt::format("{} ranks a second time", row.ranks),
                       "expected every number of ranks once");
    }
    for (const auto& [key, note] : row.notes) {
      const std::string name = fmt::format("all_reduce.{}.{}", row.ranks, key);
      file.spec.source[name] = note.source;
      file.spec.source_text[name] = note.from;
    }
  }
  add_costs(root, file);
  check_fp8(root, file.spec);
  add_fits(root, file);
  return std::move(file.spec);
}

GpuSpec read_gpu(std::string_view text, const std::string& name) {
  return gpu_from_yaml(parse_yaml(text, name));
}

}  // namespace kvlane
