#pragma once
// Pieces of work as calls with their operands, made once a shape and kept, in bounded memory:
// weights and KV are synthetic values of one block, read by every call; results have room for
// themselves until there is none left, and then all calls are made anew.
//
// Decode's weights and KV are read once a step and lie elsewhere in a real model for every layer,
// so that they come from memory. As many copies of a layer's operands as the block holds stand for
// the layers, one after the other.
//
// Used by one thread.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "calibrate/live/compute/selection_chain.h"
#include "calibrate/live/compute/work_kernels.h"
#include "calibrate/measure/backend.h"
#include "sim/gpu/cost_model.h"

namespace kvlane::live {

struct WorkCall {
  std::vector<calibrate::Call> calls;
  std::optional<SelectionOutput> selection;
};

class WorkCalls {
 public:
  // `model` and `backend` outlive this.
  WorkCalls(const CostModel& model, calibrate::Backend& backend, std::string gemm_dtype);

  // Throws NoRoom when its operands do not fit beside those of the calls that are kept.
  std::shared_ptr<const WorkCall> of(const Work& work);
  // Calls made so far must not run any more.
  void forget();
  std::size_t kept() const { return kept_.size(); }

 private:
  // Work that is alike to its kernels has the same calls. A selection is a chain of its own.
  struct Key {
    WorkKind kind;
    std::size_t copy = 0;  // of the weights, or of the KV
    // Kernel, shape, type, times.
    std::vector<std::tuple<std::string, std::vector<std::int64_t>, std::string, std::int64_t>>
        kernels;
    std::vector<std::int64_t> selection;
    auto operator<=>(const Key&) const = default;
  };
  Key key_of(const Work& work, const std::vector<KernelStep>& steps) const;
  WorkCall make(const Work& work, const std::vector<KernelStep>& steps);
  template <class Make>
  auto with_values(Make make);

  const CostModel& model_;
  calibrate::Backend& backend_;
  std::string gemm_dtype_;
  std::vector<std::size_t> like_;  // like_layers
  std::size_t copies_ = 1;
  std::map<Key, std::shared_ptr<const WorkCall>> kept_;
};

}  // namespace kvlane::live
