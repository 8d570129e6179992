#include "calibrate/fit/fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "calibrate/fit/rules.h"
#include "calibrate/fit/solver.h"
#include "sim/base/check.h"
#include "sim/base/rng.h"
#include "sim/gpu/sample_cost.h"

namespace kvlane::calibrate {
namespace {

using Samples = std::vector<const Sample*>;

constexpr std::size_t kMostRows = 10'000;  // fitted to; more cost time and change no digit
constexpr std::size_t kRowsAConstant = 2;  // at least, in each half
// Of decode attention beyond L2; where there are fewer, caches that fit L2 count too.
constexpr std::size_t kRowsBeyondL2 = 100;

std::string title(const Sample& sample) {
  return sample.variant.empty() ? sample.source : sample.source + ", " + sample.variant;
}

// A part of a source or variant chooses: all samples that hold it. Otherwise there may be one only.
Samples of_one_variant(const FitRule& rule, const Samples& all, const FitOptions& options) {
  std::map<std::string, std::size_t> titles;
  for (const Sample* sample : all) ++titles[title(*sample)];
  std::vector<std::string> list;
  for (const auto& [name, count] : titles) list.push_back(fmt::format("`{}` ({})", name, count));
  const auto wanted = options.variants.find(rule.kernel);
  if (wanted == options.variants.end()) {
    if (titles.size() > 1 && !rule.pools_variants) {
      throw FitError(fmt::format("{}: samples of several variants: {}; expected one, or a choice",
                                 rule.name, fmt::join(list, ", ")));
    }
    return all;
  }
  Samples chosen;
  for (const Sample* sample : all) {
    if (title(*sample).find(wanted->second) != std::string::npos) chosen.push_back(sample);
  }
  // A choice of the 16-bit kernel may leave nothing of the 8-bit one: then there is none to fit.
  if (chosen.empty() && !rule.fp8) {
    throw FitError(fmt::format("{}: no variant holds `{}`; the samples have {}", rule.name,
                               wanted->second, fmt::join(list, ", ")));
  }
  return chosen;
}

// The same choice of rows whatever their order, as good as drawn.
Samples thinned(Samples rows) {
  if (rows.size() <= kMostRows) return rows;
  std::vector<std::pair<std::uint64_t, const Sample*>> drawn;
  for (const Sample* row : rows) {
    drawn.emplace_back(fnv1a(fmt::format("thin {}", fmt::join(row->shape, ","))), row);
  }
  std::stable_sort(drawn.begin(), drawn.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  rows.clear();
  for (std::size_t i = 0; i < kMostRows; ++i) rows.push_back(drawn[i].second);
  return rows;
}

double relative_error(const SampleCost& cost, const Sample& sample) {
  const auto seconds = cost.seconds(sample);
  KVLANE_CHECK(seconds.has_value(), "a fitted kernel without a prediction");
  return std::abs(*seconds / sample.seconds - 1);
}

HeldOutError error_over(const GpuSpec& gpu, const Samples& rows) {
  const SampleCost cost(gpu);
  std::vector<double> errors;
  for (const Sample* row : rows) errors.push_back(relative_error(cost, *row));
  return summary_of(std::move(errors));
}

// Sizes of the rows in each dimension that a run is held against.
std::vector<DomainRange> domain_of(KernelClass kernel, const Samples& rows) {
  std::vector<DomainRange> domain;
  for (const std::string& name : domain_dimensions(kernel)) {
    DomainRange range{name, std::numeric_limits<double>::infinity(), 0};
    for (const Sample* row : rows) {
      const auto size = static_cast<double>(dimension(*row, name));
      range.low = std::min(range.low, size);
      range.high = std::max(range.high, size);
    }
    domain.push_back(range);
  }
  return domain;
}

class MachineFitter {
 public:
  MachineFitter(const std::vector<Sample>& samples, const GpuSpec& base, const FitOptions& options)
      : samples_(samples), options_(options) {
    result_.gpu = base;
    plain_ = base;  // texts cost time to copy
    plain_.source.clear();
    plain_.source_text.clear();
    plain_.fits.clear();
  }

  MachineFit run() {
    for (const FitRule& rule : fit_rules(samples_)) {
      const GpuSpec before = plain_;
      try {
        fit(rule);
      } catch (const FitError& error) {
        if (!options_.lenient) throw;
        plain_ = before;
        failed_[rule.kernel] = error.what();
      }
    }
    for (auto& [kernel, open] : open_) state(kernel, open);
    note_left_out();
    return std::move(result_);
  }

 private:
  // Rows of a class over several rules: the ranks of all-reduce.
  struct Open {
    Samples rows, held_out;
    std::string source;
    Source trust = Source::table;
  };

  void fit(const FitRule& rule) {
    if (options_.skip.contains(rule.kernel)) return;
    Samples all = rows_of(rule, SmallCaches::leave);
    const bool decode = rule.kernel == "decode_attention";
    const bool small =
        decode && all.size() < kRowsBeyondL2 && (all.empty() || !is_own(*all.front()));
    if (small) all = rows_of(rule, SmallCaches::take);
    if (all.empty()) return;
    if (rule.name == "gemm_fp8" && plain_.peak_fp8_flops <= 0) {
      throw FitError("gemm_fp8: the base has no peak_fp8_flops");
    }
    Samples fitted, held;
    for (const Sample* sample : all) (held_out(*sample) ? held : fitted).push_back(sample);

    std::vector<Constant> constants;
    for (const Constant& constant : rule.constants) {
      if (is_visible(constant, fitted)) constants.push_back(constant);
    }
    const std::size_t needed = kRowsAConstant * constants.size();
    if (fitted.size() < needed || held.size() < needed) {
      throw FitError(fmt::format(
          "{}: {} rows to fit and {} held out; expected at least {} each for {} constants",
          rule.name, fitted.size(), held.size(), needed, constants.size()));
    }
    KernelReport report;
    report.kernel = rule.name;
    report.available = fitted.size();
    report.source = all.front()->source;
    report.variant = variant_of(all);
    if (small) report.warnings.push_back("hardly any cache exceeds L2: fitted to all sizes");
    const Samples rows = thinned(fitted);
    report.fitted = rows.size();
    search(rule, constants, rows, report);
    report.held_out = error_over(plain_, held);
    keep(rule, constants, all, held, report);
    result_.kernels.push_back(std::move(report));
  }

  Samples rows_of(const FitRule& rule, SmallCaches small) const {
    Samples rows;
    for (const Sample& sample : samples_) {
      if (speaks_about(rule, plain_, sample, small)) rows.push_back(&sample);
    }
    return rows.empty() ? rows : of_one_variant(rule, rows, options_);
  }

  static std::string variant_of(const Samples& rows) {
    std::set<std::string> variants;
    for (const Sample* row : rows) variants.insert(row->variant);
    return variants.size() == 1 ? *variants.begin() : fmt::format("{} variants", variants.size());
  }

  // Which terms cost nothing. Those that grow with the work may do so in some samples each, but not
  // all of them together: where small calls on a disturbed machine look alike, the bandwidth stays,
  // at its bound.
  static std::vector<bool> absent_terms(const std::vector<Constant>& constants,
                                        const Solution& solution) {
    std::vector<bool> absent;
    bool grows = false;
    std::optional<std::size_t> bandwidth;
    for (std::size_t i = 0; i < constants.size(); ++i) {
      const Constant& constant = constants[i];
      absent.push_back((solution.at_low[i] && constant.may_vanish) ||
                       (solution.at_high[i] && constant.may_hide));
      if (constant.key.rfind("kernel_costs.", 0) != 0) continue;
      const bool rate = constant.may_hide || constant.key.ends_with(".item");
      grows = grows || (rate && !absent.back());
      if (constant.key.ends_with(".bandwidth")) bandwidth = i;
    }
    if (bandwidth && !grows) absent[*bandwidth] = false;
    return absent;
  }

  // Sets the constants of plain_.
  void search(const FitRule& rule, std::vector<Constant>& constants, const Samples& rows,
              KernelReport& report) {
    std::vector<Unknown> unknowns;
    for (const Constant& constant : constants) {
      unknowns.push_back({constant.key, constant.low, constant.high, constant.starts});
    }
    GpuSpec trial = plain_;
    const auto set = [&](GpuSpec& gpu, const std::vector<double>& values) {
      for (std::size_t i = 0; i < constants.size(); ++i) constants[i].in(gpu) = values[i];
    };
    const Solution solution = solve(
        unknowns, rows.size(), [&](const std::vector<double>& values, std::vector<double>& out) {
          set(trial, values);
          const SampleCost cost(trial);
          for (std::size_t i = 0; i < rows.size(); ++i) {
            const auto seconds = cost.seconds(*rows[i]);
            KVLANE_CHECK(seconds.has_value(), "{} without a prediction", rule.name);
            out[i] = std::log(*seconds / rows[i]->seconds);
          }
        });
    if (!solution.converged) {
      throw FitError(fmt::format("{}: the fit does not converge: {}", rule.name, solution.status));
    }
    for (std::size_t i = 0; i < constants.size(); ++i) {
      if (constants[i].key == "prefix_ec" && solution.at_high[i]) {
        // The walk hides the compute of every sample: large chunks are those of plain prefill.
        plain_.prefix_ec = plain_.prefill_ec;
        report.warnings.push_back(
            fmt::format("prefix_ec: no sample is bound by compute; taken from prefill_ec"));
        constants.erase(constants.begin() + static_cast<std::ptrdiff_t>(i));
        return search(rule, constants, rows, report);
      }
    }
    const std::vector<bool> absent = absent_terms(constants, solution);
    for (std::size_t i = 0; i < constants.size(); ++i) {
      const Constant& constant = constants[i];
      const bool none = absent[i];
      const double value = none ? 0 : rounded(solution.values[i], constant.unit);
      constant.in(plain_) = value;
      report.constants.push_back({constant.key, value, constant.unit});
      // 1 is a sum, 100 a hard maximum: both are answers.
      const std::string& key = constant.key;
      const bool exponent = key.rfind("kernel_costs.", 0) == 0 &&
                            key.compare(key.rfind('.'), std::string::npos, ".exponent") == 0;
      if ((solution.at_low[i] || solution.at_high[i]) && !none && !exponent) {
        report.warnings.push_back(
            fmt::format("{} is at its bound, {}", constant.key, value_text(value, constant.unit)));
      }
    }
  }

  // Into the answer, with where the numbers come from.
  void keep(const FitRule& rule, const std::vector<Constant>& constants, const Samples& all,
            const Samples& held, const KernelReport& report) {
    const bool own = std::all_of(all.begin(), all.end(), [](const Sample* sample) {
      return sample->source.rfind("measured", 0) == 0;
    });
    const Source trust = own ? Source::measured : Source::table;
    const std::string what =
        report.variant.empty() ? report.source : report.source + ", " + report.variant;
    const std::string text =
        fmt::format("fit to {}: {} shapes; {:.1f} % off on {} held out", what, report.available,
                    100 * report.held_out.mean, report.held_out.count);
    for (const Constant& constant : rule.constants) {
      const bool searched = std::any_of(constants.begin(), constants.end(),
                                        [&](const Constant& c) { return c.key == constant.key; });
      if (searched) {
        constant.in(result_.gpu) = constant.in(plain_);
        // The file does not name a cost that is not there.
        const std::string cost = "kernel_costs." + rule.kernel;
        const bool optional =
            constant.may_hide || constant.key == cost + ".item" || constant.key == cost + ".wake";
        if (optional && constant.in(plain_) == 0) continue;
        if (constant.key == cost + ".alone" && plain_.costs[rule.kernel].wake == 0) {
          result_.gpu.costs[rule.kernel].alone = 0;
          continue;
        }
        result_.gpu.source[constant.key] = trust;
        result_.gpu.source_text[constant.key] = text;
      } else if (constant.key == "prefix_ec") {
        result_.gpu.prefix_ec = plain_.prefix_ec;
        result_.gpu.source[constant.key] = Source::extrapolated;
        result_.gpu.source_text[constant.key] =
            "prefill_ec: the walk over the keys hides the compute of all samples with a prefix";
      }
    }
    if (!rule.states_error) return;
    Open& open = open_[rule.kernel_class];
    open.rows.insert(open.rows.end(), all.begin(), all.end());
    open.held_out.insert(open.held_out.end(), held.begin(), held.end());
    open.source = what;
    open.trust = trust;
  }

  void state(KernelClass kernel, const Open& open) {
    const HeldOutError error = error_over(plain_, open.held_out);
    KernelFit& fit = result_.gpu.fits[kernel];
    fit.error = rounded(std::min(error.mean, 2.0), ValueUnit::share);
    fit.domain = domain_of(kernel, open.rows);
    const std::string key = fmt::format("kernels.{}.error", to_string(kernel));
    result_.gpu.source[key] = open.trust;
    result_.gpu.source_text[key] =
        fmt::format("{}: {} shapes held out, median {:.1f} %, 90 % below {:.1f} %", open.source,
                    error.count, 100 * error.median, 100 * error.p90);
  }

  void note_left_out() {
    std::map<std::string, std::size_t> counts;
    for (const Sample& sample : samples_) ++counts[sample.kernel];
    const std::vector<FitRule> rules = fit_rules(samples_);
    for (const auto& entry : counts) {
      const std::string& kernel = entry.first;
      const std::size_t count = entry.second;
      const bool known = std::any_of(rules.begin(), rules.end(),
                                     [&](const FitRule& rule) { return rule.kernel == kernel; });
      const bool fitted =
          std::any_of(result_.kernels.begin(), result_.kernels.end(),
                      [&](const KernelReport& r) { return r.kernel.rfind(kernel, 0) == 0; });
      if (fitted) continue;
      const auto failed = failed_.find(kernel);
      const std::string why = failed != failed_.end() ? failed->second
                              : !known                ? "no constants of a GPU"
                              : options_.skip.contains(kernel)
                                  ? "skipped"
                                  : "all set aside or outside the domain";
      result_.left_out.push_back(fmt::format("{}: {} samples, {}", kernel, count, why));
    }
  }

  const std::vector<Sample>& samples_;
  const FitOptions& options_;
  GpuSpec plain_;
  MachineFit result_;
  std::map<KernelClass, Open> open_;
  std::map<std::string, std::string> failed_;  // by kernel, why
};

}  // namespace

MachineFit fit_machine(const std::vector<Sample>& samples, const GpuSpec& base,
                       const FitOptions& options) {
  std::set<std::string> machines;
  for (const Sample& sample : samples) {
    machines.insert(sample.machine);
    if (!(sample.seconds > 0) || !std::isfinite(sample.seconds)) {
      throw FitError(fmt::format("a {} sample of {} took {} s; expected a time above 0",
                                 sample.kernel, sample.machine, sample.seconds));
    }
  }
  if (machines.size() > 1) {
    throw FitError(fmt::format("samples of several machines: {}", fmt::join(machines, ", ")));
  }
  if (samples.empty()) throw FitError("no samples");
  MachineFit fit = MachineFitter(samples, base, options).run();
  if (fit.kernels.empty()) {
    throw FitError(fmt::format("nothing to fit: {}", fmt::join(fit.left_out, "; ")));
  }
  return fit;
}

}  // namespace kvlane::calibrate
