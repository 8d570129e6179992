#pragma once
// Measured kernels as a table: how much longer or shorter a shape took than the formula says, on
// the grid that was measured. Between grid points the logarithm of that factor is interpolated on
// logarithmic axes: along every axis on which the shape lies between two measured ones with the
// other sizes equal, and the mean of those; else bilinear over the nearest columns. Outside the
// grid there is no answer: the formula stands.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sim/gpu/cost_model.h"
#include "sim/gpu/sample.h"

namespace kvlane {

class GridTable final : public KernelTable {
 public:
  // `factor`: measured seconds / formula, above 0. A shape that is there already is replaced.
  void add(const KernelShape& shape, double factor);
  std::optional<double> factor(const KernelShape& shape) const override;
  std::size_t size() const { return points_; }

 private:
  using Sizes = std::array<std::int64_t, 3>;
  // The points on a line along one axis, by position, and their factors' logarithms.
  using Line = std::map<std::int64_t, double>;
  struct Grid {
    std::array<std::map<std::array<std::int64_t, 2>, Line>, 3> lines;  // by the other two sizes
    std::array<std::set<std::int64_t>, 3> axes;
  };
  struct Key {
    KernelClass kernel;
    std::array<std::int64_t, 3> exact;
    auto operator<=>(const Key&) const = default;
  };

  static std::optional<double> on_line(const Grid& grid, int axis, const Sizes& sizes);
  static std::optional<double> between_columns(const Grid& grid, const Sizes& sizes);

  std::map<Key, Grid> grids_;
  std::size_t points_ = 0;
};

// The table of one GPU from its samples (those of other machines, set aside, or of kernels that
// have no table are left alone). Several variants of one kernel: std::logic_error; choose before.
GridTable make_grid_table(const GpuSpec& gpu, const std::vector<Sample>& samples);

}  // namespace kvlane
