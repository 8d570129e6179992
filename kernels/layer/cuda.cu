// Element-wise operations of a layer: gated units, additions, rows of an embedding table. The norm
// is in cuda_norm.cu, the rotary embedding in cuda_rope.cu.
//
// One version: 16-byte loads, two of each input (four of the table) in flight a thread. The
// arithmetic (one exponential an element) is far from the limit.
//
// Bytes: gated_unit and add 3 elements moved an element; embedding 2. In flight: 64 a thread, 4
// blocks of 256 threads: 64 KiB an SM, above the 18 KB that an H100 needs (700 ns x 3.35 TB/s /
// 132).
// Expected at 80 % of peak: 4096 tokens x 14336 of a gated unit in bf16, 352 MB: 131 us on an H100,
// 0.51 ms on an L20 (864 GB/s). Small ones are a launch's own time, about 3 us. Not measured.

#include <cmath>

#include "kernels/common/argument.h"
#include "kernels/common/cuda_device.h"
#include "kernels/common/launch.h"
#include "kernels/common/ptx.h"
#include "kernels/layer/cuda.h"
#include "kernels/layer/cuda_elements.h"

namespace kvlane::kernels::cuda {
namespace {

constexpr int kThreads = 256, kBlocksAnSm = 4;
constexpr int kPairs = 2;  // loads of each of two inputs, in flight a thread
constexpr int kLoads = 4;  // of the embedding

// Functions of two elements.
struct SiluTimes {  // x / (1 + e^-x) * up
  static __device__ __forceinline__ float of(float x, float up) { return x / (1 + expf(-x)) * up; }
};
struct GeluTimes {
  // tanh-GELU: 0.5 (1 + tanh(u)) is the logistic function of 2 u.
  static __device__ __forceinline__ float of(float x, float up) {
    constexpr float kTwoRootTwoOverPi = 2 * 0.7978845608028653559f;
    return x / (1 + expf(-kTwoRootTwoOverPi * (x + 0.044715f * x * x * x))) * up;
  }
};
struct Sum {
  static __device__ __forceinline__ float of(float a, float b) { return a + b; }
};

struct Elements {
  const void* a;
  const void* b;
  void* out;
  std::size_t elements;
  std::size_t loads;  // 16-byte loads; what they leave is done an element at a time
};

template <Format kFormat, typename Function>
__global__ void __launch_bounds__(kThreads, kBlocksAnSm) combine_elements(Elements e) {
  constexpr int kPer = kPerLoad<kFormat>;
  const std::size_t thread = blockIdx.x * static_cast<std::size_t>(kThreads) + threadIdx.x;
  const std::size_t threads = gridDim.x * static_cast<std::size_t>(kThreads);
  for (std::size_t at = thread; at < e.loads; at += kPairs * threads) {
    uint4 a[kPairs], b[kPairs];
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      // Past the end: the first again, not stored.
      const std::size_t mine = at + static_cast<std::size_t>(j) * threads;
      const std::size_t from = (mine < e.loads ? mine : at) * kPer;
      a[j] = load_row<kFormat>(e.a, from);
      b[j] = load_row<kFormat>(e.b, from);
    }
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const std::size_t mine = at + static_cast<std::size_t>(j) * threads;
      if (mine >= e.loads) continue;
      float x[kPer], y[kPer];
      unpack<kFormat>(a[j], x);
      unpack<kFormat>(b[j], y);
#pragma unroll
      for (int i = 0; i < kPer; ++i) x[i] = Function::of(x[i], y[i]);
      store_row<kFormat>(e.out, mine * kPer, x);
    }
  }
  for (std::size_t i = e.loads * kPer + thread; i < e.elements; i += threads) {
    store_element<kFormat>(
        e.out, i, Function::of(load_element<kFormat>(e.a, i), load_element<kFormat>(e.b, i)));
  }
}

template <typename Function>
void combine(Format format, const void* a, const void* b, void* out, std::size_t elements,
             Stream stream) {
  const std::size_t per = 16 / bytes_of(format);
  const bool aligned = at_16_bytes(a) && at_16_bytes(b) && at_16_bytes(out);
  const Elements e{a, b, out, elements, aligned ? elements / per : 0};
  const std::size_t items = aligned ? (e.loads + kPairs - 1) / kPairs + 1 : elements;
  const auto blocks = static_cast<unsigned>(
      std::min<std::size_t>((items + kThreads - 1) / kThreads,
                            static_cast<std::size_t>(2 * kBlocksAnSm * multiprocessors())));
  with_format(format, [&](auto f) {
    launch({blocks, kThreads, 0, stream}, combine_elements<decltype(f)::value, Function>, e);
  });
}

// Blocks: x the token, y a part of its row.
template <Format kFormat, bool kAligned>
__global__ void __launch_bounds__(kThreads, kBlocksAnSm) embed_rows(Embedding args) {
  constexpr int kPer = kPerLoad<kFormat>;
  const int id = max(0, min(args.ids[blockIdx.x], args.vocabulary - 1));
  const std::size_t from = static_cast<std::size_t>(id) * static_cast<unsigned>(args.width);
  const std::size_t to = static_cast<std::size_t>(blockIdx.x) * static_cast<unsigned>(args.width);
  const int thread = static_cast<int>(blockIdx.y) * kThreads + static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(gridDim.y) * kThreads;
  if constexpr (kAligned) {
    const int loads = args.width / kPer;
    for (int at = thread; at < loads; at += kLoads * threads) {
      uint4 raw[kLoads];
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        raw[j] = load_row<kFormat>(
            args.table, from + static_cast<std::size_t>(min(at + j * threads, loads - 1)) * kPer);
      }
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        if (at + j * threads >= loads) continue;
        float values[kPer];
        unpack<kFormat>(raw[j], values);
#pragma unroll
        for (int i = 0; i < kPer; ++i) values[i] *= args.scale;
        store_row<kFormat>(args.out, to + static_cast<std::size_t>(at + j * threads) * kPer,
                           values);
      }
    }
  } else {
    for (int i = thread; i < args.width; i += threads) {
      store_element<kFormat>(
          args.out, to + static_cast<unsigned>(i),
          load_element<kFormat>(args.table, from + static_cast<unsigned>(i)) * args.scale);
    }
  }
}

const char* shape_problem(const Embedding& args) {
  if (args.tokens < 0 || args.width < 0 || args.vocabulary < 0) {
    return "embedding: sizes are not negative";
  }
  if (args.tokens == 0 || args.width == 0) return nullptr;
  if (args.vocabulary == 0) return "embedding: an id is outside the vocabulary";
  if (args.width > 1 << 30) return "embedding: rows of more than 2^30 elements";
  if (args.ids == nullptr || args.table == nullptr || args.out == nullptr) {
    return "embedding: null tensor";
  }
  return nullptr;
}

}  // namespace

void gated_unit(const GatedUnit& args, Stream stream) {
  require(problem(args));  // looks at sizes and for null only
  const std::size_t elements =
      static_cast<std::size_t>(args.rows) * static_cast<std::size_t>(args.width);
  if (elements == 0) return;
  const auto run = args.activation == Activation::silu ? combine<SiluTimes> : combine<GeluTimes>;
  run(args.format, args.gate, args.up, args.out, elements, stream);
}

void add(const Add& args, Stream stream) {
  require(problem(args));
  if (args.elements == 0) return;
  combine<Sum>(args.format, args.a, args.b, args.out, static_cast<std::size_t>(args.elements),
               stream);
}

void embedding(const Embedding& args, Stream stream) {
  require(shape_problem(args));
  if (args.tokens == 0 || args.width == 0) return;
  const auto row_bytes = static_cast<std::size_t>(args.width) * bytes_of(args.format);
  const bool aligned = row_bytes % 16 == 0 && at_16_bytes(args.table) && at_16_bytes(args.out);
  // A part is a block's loads once round; rows of a model are one or two.
  const std::size_t part =
      std::size_t{kThreads} * (aligned ? kLoads * 16 : 8 * bytes_of(args.format));
  const dim3 grid(static_cast<unsigned>(args.tokens), static_cast<unsigned>(std::min<std::size_t>(
                                                          (row_bytes + part - 1) / part, 65535)));
  with_format(args.format, [&](auto f) {
    constexpr Format kFormat = decltype(f)::value;
    launch({grid, kThreads, 0, stream},
           aligned ? embed_rows<kFormat, true> : embed_rows<kFormat, false>, args);
  });
}

Budget elementwise_budget() { return Budget{kThreads, kBlocksAnSm, 0, 2 * kPairs * 16}; }
Budget embedding_budget() { return Budget{kThreads, kBlocksAnSm, 0, kLoads * 16}; }

}  // namespace kvlane::kernels::cuda
