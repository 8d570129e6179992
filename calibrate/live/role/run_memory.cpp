#include "calibrate/live/role/run_memory.h"

#include <fmt/format.h>
#include <sys/sysinfo.h>

#include <algorithm>

#include "calibrate/live/memory/pattern.h"
#include "sim/base/check.h"
#include "sim/run/strategy_run.h"

namespace kvlane::live {
namespace {

constexpr std::size_t kSlice = std::size_t{64} << 20U;  // bytes filled between two breaths

}  // namespace

std::int64_t most_region_bytes(const Scenario& scenario, Workload& workload) {
  std::int64_t most = 0;
  for (const StrategyOptions& strategy : scenario.strategies) {
    std::int64_t sum = 0;
    for (const RequestPlan& plan : plan_requests(scenario, workload, strategy)) {
      sum += plan.region_bytes + 128;
    }
    most = std::max(most, sum);
  }
  return most;
}

void check_memory(std::int64_t bytes, std::int64_t ends) {
  struct sysinfo info {};
  ::sysinfo(&info);
  const auto unit = static_cast<std::int64_t>(info.mem_unit);
  const std::int64_t there = static_cast<std::int64_t>(info.totalram) * unit;
  if (bytes > there / 10 * 9 / ends) {
    throw RunError(
        fmt::format("the KV of this scenario takes {:.2f} GB at each role and this host "
                    "has {:.2f} GB; expected shorter prompts or a smaller model",
                    static_cast<double>(bytes) / 1e9, static_cast<double>(there) / 1e9));
  }
}

RunMemory::RunMemory(Deployment& deployment, RegionTable& regions, EndpointId here,
                     EndpointId decode, std::uint64_t run, bool verify,
                     const std::function<void()>& breathe)
    : deployment_(deployment),
      table_(regions),
      here_(here),
      decode_(decode),
      verify_(verify),
      breathe_(breathe),
      inspector_(deployment.requests(), regions, here == decode, run, verify,
                 [this](EndpointId peer, RequestId request) {
                   const EndpointId prefill = deployment_.prefill_of(request);
                   return here_ == decode_ ? peer == prefill : here_ == prefill && peer == decode_;
                 }) {}

std::vector<RegionPlace> RunMemory::expose() {
  std::vector<RegionPlace> told;
  const bool prefill = here_ != decode_;
  for (const RequestPlan& plan : deployment_.requests()) {
    const EndpointId other = deployment_.prefill_of(plan.id);
    if (prefill && other != here_) continue;
    KVLANE_CHECK(table_.create(plan.region, plan.region_bytes), "no room for request {}",
                 plan.id.value());
    regions_.push_back(plan.region);
    const auto size = static_cast<std::size_t>(plan.region_bytes);
    const std::span<std::byte> bytes = table_.bytes_of(plan.region).first(size);
    for (std::size_t at = 0; at < size; at += kSlice) {
      const std::span<std::byte> slice = bytes.subspan(at, std::min(kSlice, size - at));
      if (prefill) {
        fill_pattern(inspector_.seed_of(plan.region), static_cast<std::int64_t>(at), slice);
      } else {
        std::ranges::fill(slice, std::byte{0});
      }
      breathe_();
    }
    told.push_back(table_.expose(plan.region, prefill ? decode_ : other));
  }
  return told;
}

std::int64_t RunMemory::check() {
  std::int64_t strayed = 0;
  for (const RegionId region : regions_) {
    if (verify_ && here_ == decode_) strayed += inspector_.strayed(region, breathe_);
  }
  if (inspector_.wrong() > 0 || strayed > 0) {
    throw RunError(fmt::format(
        "{} of {} bytes that arrived are wrong, {} bytes were written where none belong",
        inspector_.wrong(), inspector_.verified(), strayed));
  }
  return inspector_.verified();
}

void RunMemory::withdraw() {
  for (const RegionId region : regions_) table_.withdraw(region, {});
  regions_.clear();
}

}  // namespace kvlane::live
