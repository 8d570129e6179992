#pragma once
// Durations of work that was asked for before. Layers of one shape count as the same, so that a
// model's layers cost one evaluation; direct mapped: a clash overwrites, nothing allocates.

#include <cstdint>
#include <vector>

#include "sim/gpu/cost_model.h"

namespace kvlane {

class WorkCache {
 public:
  explicit WorkCache(const CostModel& model) : entries_(kEntries) {
    const auto& layers = model.model().layers;
    for (std::size_t l = 0; l < layers.size(); ++l) {
      std::size_t first = 0;
      while (!(layers[first] == layers[l])) ++first;
      shape_.push_back(static_cast<std::uint32_t>(first));
    }
  }

  Duration duration(const CostModel& model, const Work& work) {
    Key key;
    key.sizes[0] = work.batch;
    key.sizes[1] = work.new_tokens;
    key.sizes[2] = work.context_tokens;
    key.sizes[3] = work.attended_rows;
    key.sizes[4] = work.elements + work.bytes.count();  // no kind has both
    key.sizes[5] = (static_cast<std::int64_t>(work.kv_bits) << 32) + work.partition;
    key.sizes[6] = (static_cast<std::int64_t>(work.selector_bytes) << 1) + (work.hashed ? 1 : 0);
    key.shape = work.layer.is_valid() && work.layer.index() < shape_.size()
                    ? shape_[work.layer.index()]
                    : 0xffffffffU;
    key.kind = work.kind;
    Entry& entry = entries_[key.hash() % kEntries];
    if (entry.used && entry.key == key) return entry.duration;
    entry = {key, model.duration(work), true};  // may throw, then nothing has changed
    return entry.duration;
  }

 private:
  static constexpr std::size_t kEntries = 4096;

  struct Key {
    std::int64_t sizes[7] = {};
    std::uint32_t shape = 0;
    WorkKind kind = WorkKind::host_step;
    bool operator==(const Key&) const = default;
    std::uint64_t hash() const {
      std::uint64_t h =
          (static_cast<std::uint64_t>(shape) << 8U) + static_cast<std::uint64_t>(kind);
      for (const std::int64_t size : sizes) {
        h = (h ^ static_cast<std::uint64_t>(size)) * 0x9e3779b97f4a7c15ULL;
        h ^= h >> 29U;
      }
      return h;
    }
  };
  struct Entry {
    Key key;
    Duration duration{0};
    bool used = false;
  };

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> shape_;
};

}  // namespace kvlane
