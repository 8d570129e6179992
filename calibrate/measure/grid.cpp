#include "calibrate/measure/grid.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include "sim/base/rng.h"
#include "sim/gpu/kernel_work.h"

namespace kvlane::calibrate {
namespace {

using Sizes = std::vector<std::int64_t>;

struct Heads {
  std::int64_t query = 0, kv = 0, width = 0;
  auto operator<=>(const Heads&) const = default;
};
struct Matrix {
  std::int64_t n = 0, k = 0;
  auto operator<=>(const Matrix&) const = default;
};

constexpr std::size_t kMostShapes = 40;  // of a kernel: two halves with two rows a constant each
constexpr std::size_t kMostMatrices = 20;

class Grid {
 public:
  Grid(const std::vector<ModelSpec>& models, const char* gemm_dtype, GridSize size)
      : quick_(size == GridSize::quick),
        gpu_(std::string(gemm_dtype) != "fp32"),
        gemm_dtype_(gemm_dtype) {
    for (const ModelSpec& model : models) add_model(model);
  }

  std::vector<Sample> all() {
    gemm();
    attention();
    selection();
    gathers();
    hack();
    layers();
    return std::move(samples_);
  }

 private:
  void add_model(const ModelSpec& model) {
    for (const LayerSpec& layer : model.layers) {
      if (layer.attention == AttentionKind::latent || layer.attention == AttentionKind::linear)
        continue;
      heads_.insert({layer.query_heads, layer.kv_heads, layer.head_dim});
      const std::int64_t inner = layer.query_heads * layer.head_dim;
      const std::int64_t hidden = model.hidden;
      matrices_.insert({inner + 2 * layer.kv_heads * layer.head_dim, hidden});
      matrices_.insert({hidden, inner});
      widths_.insert(hidden);
      if (layer.ffn_experts > 0 || hidden == 0) continue;
      const std::int64_t ffn = layer.ffn_parameters / (3 * hidden);
      matrices_.insert({2 * ffn, hidden});
      matrices_.insert({hidden, ffn});
      ffn_widths_.insert(ffn);
    }
  }

  // Every choice of one of each list.
  void cross(const std::vector<Sizes>& lists, std::vector<Sizes>& out, Sizes chosen = {}) const {
    if (chosen.size() == lists.size()) return out.push_back(std::move(chosen));
    for (const std::int64_t value : lists[chosen.size()]) {
      Sizes next = chosen;
      next.push_back(value);
      cross(lists, out, std::move(next));
    }
  }

  // In order of work, thinned evenly by a hash of the shape: the same choice on every machine.
  void add(const char* kernel, std::vector<Sizes> shapes, const char* dtype = "bf16",
           const std::string& variant = "", bool beside = false) {
    const auto hash = [&](const Sizes& shape) {
      std::string key = kernel;
      for (const std::int64_t size : shape) key += ',' + std::to_string(size);
      return fnv1a(key);
    };
    std::sort(shapes.begin(), shapes.end());
    shapes.erase(std::unique(shapes.begin(), shapes.end()), shapes.end());
    if (shapes.size() > kMostShapes) {
      std::sort(shapes.begin(), shapes.end(),
                [&](const Sizes& a, const Sizes& b) { return hash(a) < hash(b); });
      shapes.resize(kMostShapes);
    }
    std::vector<Sample> some;
    for (Sizes& shape : shapes) {
      Sample sample;
      sample.kernel = kernel;
      sample.shape = std::move(shape);
      sample.dtype = dtype;
      sample.variant = variant;
      if (beside) sample.set_aside = "another way to gather";
      some.push_back(std::move(sample));
    }
    sort_by_work(some);
    samples_.insert(samples_.end(), std::make_move_iterator(some.begin()),
                    std::make_move_iterator(some.end()));
  }

  // Shapes of the heads of every model times other sizes: (lists before, heads, lists after), where
  // `make` puts them in the order of the kernel.
  template <class Make>
  std::vector<Sizes> with_heads(const std::vector<Sizes>& lists, Make make) const {
    std::vector<Sizes> rest, shapes;
    cross(lists, rest);
    for (const Heads& heads : heads_) {
      for (const Sizes& sizes : rest) shapes.push_back(make(sizes, heads));
    }
    return shapes;
  }

  // Sizes up to 2^last in steps of 4, quick: small ones.
  Sizes powers(int first, int last, int step = 2) const {
    Sizes sizes;
    const int end = quick_ ? std::min(last, first + 4) : last;
    for (int power = first; power <= end; power += quick_ ? 1 : step) {
      sizes.push_back(std::int64_t{1} << power);
    }
    return sizes;
  }

  void gemm() {
    std::vector<Matrix> matrices(matrices_.begin(), matrices_.end());
    std::sort(matrices.begin(), matrices.end(),
              [](const Matrix& a, const Matrix& b) { return a.n * a.k < b.n * b.k; });
    if (quick_) matrices.resize(std::min<std::size_t>(matrices.size(), 6));
    std::vector<Sizes> shapes;
    const std::size_t count = std::min(matrices.size(), kMostMatrices);
    for (std::size_t i = 0; i < count; ++i) {
      const Matrix& matrix =
          matrices[i * (matrices.size() - 1) / std::max<std::size_t>(count - 1, 1)];
      for (const std::int64_t m : quick_ ? Sizes{1, 2, 3, 4, 6, 8, 12, 16} : Sizes{1, 8, 64, 512}) {
        shapes.push_back({m, matrix.n, matrix.k});
      }
    }
    // The ceiling: a large square product.
    if (!quick_) shapes.push_back({2048, 2048, 2048});
    add("gemm", std::move(shapes), gemm_dtype_);
  }

  void attention() {
    add("prefill_attention",
        with_heads({{1}, powers(6, 12, 1)}, [](const Sizes& s, const Heads& h) {
          return Sizes{s[0], s[1], h.query, h.kv, h.width};
        }));
    add("prefix_attention",
        with_heads({{1}, powers(5, 9), powers(8, 14)}, [](const Sizes& s, const Heads& h) {
          return Sizes{s[0], s[1], s[2], h.query, h.kv, h.width};
        }));
    add("decode_attention",
        with_heads({{1, 2, 4, 8}, powers(8, 16)}, [](const Sizes& s, const Heads& h) {
          return Sizes{s[0], s[1], h.query, h.kv, h.width};
        }));
    // A fifth of the context, in single rows and in runs of 8: 4 KiB at 128 channels.
    add("sparse_attention",
        with_heads({{1, 4}, powers(10, 16), {1, 8}}, [](const Sizes& s, const Heads& h) {
          return Sizes{s[0], s[1], s[1] / 5, s[2], h.query, h.kv, h.width};
        }));
  }

  void selection() {
    add("hata_encode", with_heads({powers(0, 12, 1)}, [](const Sizes& s, const Heads& h) {
          return Sizes{s[0], s[0] < 32 ? h.query : h.kv, h.kv, h.width};
        }));
    add("hata_score", with_heads({{1, 4}, powers(10, 16)}, [](const Sizes& s, const Heads& h) {
          return Sizes{s[0], s[1], h.query, h.kv};
        }));
    add("infinigen_project", with_heads({powers(0, 12, 1)}, [](const Sizes& s, const Heads& h) {
          // Queries keep a quarter of the channels, as keys do.
          return Sizes{s[0], s[0] < 32 ? h.query : h.kv, h.kv, h.width, h.width / 4};
        }));
    add("infinigen_score", with_heads({{1, 4}, powers(10, 16)}, [](const Sizes& s, const Heads& h) {
          return Sizes{s[0], s[1], h.query, h.kv, h.width / 4};
        }));
    add("topk", with_heads({{1, 4}, powers(10, 17, 1)}, [](const Sizes& s, const Heads& h) {
          return Sizes{s[0] * h.kv, s[1], s[1] / 5};
        }));
    add("index_split", with_heads({{1, 4}, powers(10, 16, 1)}, [](const Sizes& s, const Heads& h) {
          return Sizes{s[0], h.kv, s[1] / 5, s[1]};
        }));
  }

  // A GPU has several ways to rows in host memory; the kernel's is fitted.
  void gathers() {
    const std::vector<Sizes> shapes =
        with_heads({{1, 4}, powers(10, 16), {1, 8}}, [](const Sizes& s, const Heads& h) {
          return Sizes{s[0], s[1], s[1] / 5, s[2], h.kv, h.width};
        });
    if (!gpu_) {
      add("kv_gather", shapes);
      add("kv_scatter", shapes);
      return;
    }
    for (const char* way : {kGatherZeroCopy, kGatherPacked, kGatherCopies})
      add("kv_gather", shapes, "bf16", way, way != kGatherZeroCopy);
    for (const char* way : {kGatherZeroCopy, kGatherCopies})
      add("kv_scatter", shapes, "bf16", way, way != kGatherZeroCopy);
  }

  void hack() {
    add("hack_append", with_heads({{1}, powers(7, 13, 1), {2}}, [](const Sizes& s, const Heads& h) {
          return Sizes{s[0], s[1], h.kv, h.width, s[2], 64};
        }));
    for (const char* kernel : {"hack_attention", "hack_dequantise_attention"}) {
      add(kernel, with_heads({{1, 4}, powers(8, 16, 1), {2}}, [](const Sizes& s, const Heads& h) {
            return Sizes{s[0], s[1], h.query, h.kv, h.width, s[2], 64};
          }));
    }
  }

  void layers() {
    const Sizes rows = powers(0, 12, 1);
    std::vector<Sizes> norms, gates, ropes, rows_of_table, sums;
    for (const std::int64_t r : rows) {
      for (const std::int64_t width : widths_) {
        norms.push_back({r, width});
        rows_of_table.push_back({r, width});
        sums.push_back({r * width});
      }
      for (const std::int64_t width : ffn_widths_) gates.push_back({r, width});
      for (const Heads& heads : heads_) ropes.push_back({r, heads.query + heads.kv, heads.width});
    }
    add("rms_norm", std::move(norms));
    add("rope", std::move(ropes));
    add("gated_unit", std::move(gates));
    add("embedding", std::move(rows_of_table));
    add("add", std::move(sums));
  }

  static void sort_by_work(std::vector<Sample>& samples) {
    // Seconds on a machine of 10 FLOPs a byte: any order of growing size would do.
    const auto size = [](const Sample& sample) {
      const auto work = kernel_work(sample);
      return work ? std::max(work->flops / 10, work->bytes) : 0.0;
    };
    std::stable_sort(samples.begin(), samples.end(),
                     [&](const Sample& a, const Sample& b) { return size(a) < size(b); });
  }

  bool quick_, gpu_;
  const char* gemm_dtype_;
  std::set<Heads> heads_;
  std::set<Matrix> matrices_;
  std::set<std::int64_t> widths_, ffn_widths_;
  std::vector<Sample> samples_;
};

}  // namespace

std::vector<Sample> kernel_grid(const std::vector<ModelSpec>& models, const char* gemm_dtype,
                                GridSize size) {
  return Grid(models, gemm_dtype, size).all();
}

}  // namespace kvlane::calibrate
