#include "sim/gpu/grid_table.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "sim/base/check.h"
#include "sim/gpu/portable_math.h"
#include "sim/gpu/sample_cost.h"

namespace kvlane {
namespace {

std::array<std::int64_t, 2> others(const std::array<std::int64_t, 3>& sizes, int axis) {
  switch (axis) {
    case 0:
      return {sizes[1], sizes[2]};
    case 1:
      return {sizes[0], sizes[2]};
    default:
      return {sizes[0], sizes[1]};
  }
}

// Position of x between a and b on a logarithmic axis; sizes of 0 (no cached tokens) count as 1.
double position(std::int64_t a, std::int64_t x, std::int64_t b) {
  const auto log_of = [](std::int64_t v) {
    return portable::log(static_cast<double>(std::max<std::int64_t>(v, 1)));
  };
  const double width = log_of(b) - log_of(a);
  return width > 0 ? (log_of(x) - log_of(a)) / width : 0;
}

// Neighbours of x in a set: {x, x} where it is a member, nothing beyond the ends.
std::optional<std::pair<std::int64_t, std::int64_t>> bracket(const std::set<std::int64_t>& axis,
                                                             std::int64_t x) {
  const auto above = axis.lower_bound(x);
  if (above == axis.end()) return std::nullopt;
  if (*above == x) return std::pair(x, x);
  if (above == axis.begin()) return std::nullopt;
  return std::pair(*std::prev(above), *above);
}

}  // namespace

void GridTable::add(const KernelShape& shape, double factor) {
  KVLANE_CHECK(factor > 0 && std::isfinite(factor), "factor {}", factor);
  Grid& grid = grids_[{shape.kernel, shape.exact}];
  const double value = portable::log(factor);
  for (int axis = 0; axis < 3; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    const bool is_new =
        grid.lines[a][others(shape.sizes, axis)].insert_or_assign(shape.sizes[a], value).second;
    if (axis == 0 && is_new) ++points_;
    grid.axes[a].insert(shape.sizes[a]);
  }
}

std::optional<double> GridTable::on_line(const Grid& grid, int axis, const Sizes& sizes) {
  const auto a = static_cast<std::size_t>(axis);
  const auto line = grid.lines[a].find(others(sizes, axis));
  if (line == grid.lines[a].end()) return std::nullopt;
  const auto above = line->second.lower_bound(sizes[a]);
  if (above == line->second.end()) return std::nullopt;
  if (above->first == sizes[a]) return above->second;
  if (above == line->second.begin()) return std::nullopt;
  const auto below = std::prev(above);
  const double at = position(below->first, sizes[a], above->first);
  return below->second + at * (above->second - below->second);
}

// The four columns around the last two sizes, each interpolated along the first.
std::optional<double> GridTable::between_columns(const Grid& grid, const Sizes& sizes) {
  const auto n = bracket(grid.axes[1], sizes[1]);
  const auto k = bracket(grid.axes[2], sizes[2]);
  if (!n || !k) return std::nullopt;
  const double at_n = position(n->first, sizes[1], n->second);
  const double at_k = position(k->first, sizes[2], k->second);
  double sum = 0;
  for (const bool high_n : {false, true}) {
    for (const bool high_k : {false, true}) {
      const double weight = (high_n ? at_n : 1 - at_n) * (high_k ? at_k : 1 - at_k);
      if (weight == 0) continue;
      const auto column = on_line(
          grid, 0, {sizes[0], high_n ? n->second : n->first, high_k ? k->second : k->first});
      if (!column) return std::nullopt;
      sum += weight * *column;
    }
  }
  return sum;
}

std::optional<double> GridTable::factor(const KernelShape& shape) const {
  const auto found = grids_.find({shape.kernel, shape.exact});
  if (found == grids_.end()) return std::nullopt;
  const Grid& grid = found->second;
  double sum = 0;
  int count = 0;
  for (int axis = 0; axis < 3; ++axis) {
    // An axis with one point says something only about that point.
    if (const auto value = on_line(grid, axis, shape.sizes)) {
      sum += *value;
      ++count;
    }
  }
  if (count > 0) return portable::exp(sum / count);
  const auto value = between_columns(grid, shape.sizes);
  return value ? std::optional(portable::exp(*value)) : std::nullopt;
}

GridTable make_grid_table(const GpuSpec& gpu, const std::vector<Sample>& samples) {
  GridTable table;
  const SampleCost cost(gpu);
  std::map<std::string, std::string> variants;  // by kernel and dtype
  for (const Sample& sample : samples) {
    if (sample.machine != gpu.name || !sample.set_aside.empty()) continue;
    const auto shape = table_shape(sample);
    const auto formula = cost.seconds(sample);
    if (!shape || !formula) continue;
    const std::string& first =
        variants.emplace(sample.kernel + ' ' + sample.dtype, sample.variant).first->second;
    KVLANE_CHECK(first == sample.variant, "{} of {}: variants `{}` and `{}` in one table",
                 sample.kernel, gpu.name, first, sample.variant);
    table.add(*shape, sample.seconds / *formula);
  }
  return table;
}

}  // namespace kvlane
