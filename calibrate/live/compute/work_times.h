#pragma once
// Work of a scenario as this machine's kernels take it, whole: what `compare --sim-vs-live`
// simulates with. The formulas of a hardware file are fitted to many shapes and miss a single one
// by tens of per cent.

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "sim/gpu/cost_model.h"

namespace kvlane::live {

// What is alike but for its sizes: kind, shape of the layer, batch, KV bits, partition, metadata.
class WorkClasses {
 public:
  using Class = std::tuple<WorkKind, std::size_t, std::int64_t, int, int, int, bool>;
  explicit WorkClasses(const ModelSpec& model);
  Class of(const Work& work) const;
  // By this two pieces of one class differ.
  static std::int64_t size_of(const Work& work);

 private:
  std::vector<std::size_t> like_;  // by layer: the first of its shape
};

// Notes what a cost model is asked for; answers nothing.
class WorkList final : public KernelTable {
 public:
  explicit WorkList(const ModelSpec& model) : classes_(model) {}
  std::optional<double> factor(const KernelShape&) const override { return {}; }
  std::optional<double> work_factor(const Work& work) const override;
  bool times_whole_work() const override { return true; }
  // Of each class the smallest, the middle and the largest piece.
  std::vector<Work> chosen() const;

 private:
  WorkClasses classes_;
  mutable std::map<WorkClasses::Class, std::map<std::int64_t, Work>> asked_;
};

// Measured time / formula, between measured sizes of a class linear in the logarithm of the size.
// Beyond them, and for other classes, there is no answer: the formula stands.
class WorkTimes final : public KernelTable {
 public:
  explicit WorkTimes(const ModelSpec& model) : classes_(model) {}
  // `factor` above 0.
  void add(const Work& work, double factor);
  std::optional<double> factor(const KernelShape&) const override { return {}; }
  std::optional<double> work_factor(const Work& work) const override;
  bool times_whole_work() const override { return true; }

 private:
  WorkClasses classes_;
  std::map<WorkClasses::Class, std::map<std::int64_t, double>> factors_;
};

}  // namespace kvlane::live
