#include "calibrate/live/compute/work_times.h"

#include <cmath>
#include <iterator>
#include <utility>

#include "calibrate/live/compute/work_kernels.h"
#include "sim/base/check.h"

namespace kvlane::live {

WorkClasses::WorkClasses(const ModelSpec& model) : like_(like_layers(model)) {}

WorkClasses::Class WorkClasses::of(const Work& work) const {
  const bool layered = work.layer.is_valid() && work.layer.index() < like_.size();
  return {work.kind,      layered ? like_[work.layer.index()] : like_.size(),
          work.batch,     work.kv_bits,
          work.partition, work.selector_bytes,
          work.hashed};
}

std::int64_t WorkClasses::size_of(const Work& work) {
  return work.new_tokens + work.context_tokens + work.attended_rows + work.elements +
         work.bytes.count();
}

std::optional<double> WorkList::work_factor(const Work& work) const {
  asked_[classes_.of(work)].try_emplace(WorkClasses::size_of(work), work);
  return {};
}

std::vector<Work> WorkList::chosen() const {
  std::vector<Work> some;
  for (const auto& [work_class, by_size] : asked_) {
    const auto all = static_cast<std::ptrdiff_t>(by_size.size());
    std::ptrdiff_t last = -1;
    for (const std::ptrdiff_t at : {std::ptrdiff_t{0}, all / 2, all - 1}) {
      if (std::exchange(last, at) == at) continue;
      some.push_back(std::next(by_size.begin(), at)->second);
    }
  }
  return some;
}

void WorkTimes::add(const Work& work, double factor) {
  KVLANE_CHECK(factor > 0, "a factor of {}", factor);
  factors_[classes_.of(work)][WorkClasses::size_of(work)] = factor;
}

std::optional<double> WorkTimes::work_factor(const Work& work) const {
  const auto found = factors_.find(classes_.of(work));
  if (found == factors_.end()) return {};
  const auto& by_size = found->second;
  const std::int64_t size = WorkClasses::size_of(work);
  const auto above = by_size.lower_bound(size);
  if (above == by_size.end()) return {};
  if (above->first == size) return above->second;
  if (above == by_size.begin()) return {};
  const auto below = std::prev(above);
  const auto position = [](std::int64_t at) { return std::log1p(static_cast<double>(at)); };
  const double low = position(below->first);
  const double share = (position(size) - low) / (position(above->first) - low);
  return below->second + share * (above->second - below->second);
}

}  // namespace kvlane::live
