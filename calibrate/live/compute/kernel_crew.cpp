#include "calibrate/live/compute/kernel_crew.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "calibrate/live/compute/work_kernels.h"
#include "sim/base/check.h"

namespace kvlane::live {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20U;

}  // namespace

KernelCrew::KernelCrew(const CostModel& model, std::unique_ptr<KernelSet> kernels)
    : model_(model),
      kernels_(std::move(kernels)),
      calls_(model_, kernels_->backend(), kernels_->gemm_dtype()) {}

bool KernelCrew::begin(Job& job, bool others) {
  if (job.work.kind == WorkKind::host_step) {
    // The scheduler's time is the host's; this program has its own, the rest passes.
    job.not_before = std::chrono::steady_clock::now() +
                     std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                         std::chrono::duration<double>(model_.gpu().host_step));
    return true;
  }
  for (bool again = false;; again = true) {
    try {
      job.calls = calls_.of(job.work);
      return true;
    } catch (const calibrate::NoRoom&) {
      if (others) return false;
      if (again) {
        const calibrate::Operands& operands = kernels_->backend().operands();
        throw std::runtime_error(fmt::format(
            "{} of {} ({} sequences, {} new tokens over {}) needs more operands than {} MiB of "
            "values and {} MiB of results hold; expected shorter prompts, a smaller model or "
            "batch, or more operand memory",
            to_string(job.work.kind), model_.model().name, job.work.batch, job.work.new_tokens,
            job.work.context_tokens, operands.values().size() / kMiB,
            operands.results().size() / kMiB));
      }
      calls_.forget();
    }
  }
}

bool KernelCrew::step(Job& job) {
  if (job.kind == Job::Kind::prepare || !job.calls) return true;
  const WorkCall& work = *job.calls;
  const auto all = work.calls.size();
  const auto first = static_cast<std::size_t>(job.next);
  const std::size_t last = std::min(all, first + kernels_->calls_ahead());
  for (std::size_t i = first; i < last; ++i) work.calls[i]();
  job.next = static_cast<std::int64_t>(last);
  if (last > first) kernels_->finish();
  if (last < all) return false;
  if (work.selection) job.selection = fetched(*work.selection);
  return true;
}

Selection KernelCrew::fetched(const SelectionOutput& output) {
  Selection selection;
  selection.sequences = output.sequences;
  selection.kv_heads = output.kv_heads;
  selection.kv_tokens = output.kv_tokens;
  selection.chosen = output.chosen;
  const auto rows = static_cast<std::size_t>(output.sequences * output.kv_heads);
  const auto fetch = [&](std::vector<std::int32_t>& to, const std::int32_t* from,
                         std::size_t count) {
    to.resize(count);
    kernels_->fetch(to.data(), from, count * sizeof(std::int32_t));
  };
  fetch(selection.index, output.index, rows * static_cast<std::size_t>(output.chosen));
  fetch(selection.split, output.split, selection.index.size());
  fetch(selection.local_count, output.local_count, rows);
  return selection;
}

}  // namespace kvlane::live
