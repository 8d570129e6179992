#pragma once
// Selected KV rows between host and device memory, in three ways. Which one is fastest depends on
// the size of the runs and of the whole: a matter of calibration.
//
//   zero copy   kv_gather / kv_scatter: a kernel reads (writes) the pinned cache over the bus.
//               Pointers as cuda_stream.h says; kv.rows may be pinned host memory, index, table,
//               lengths and counts too. The GPU's cores are busy, the host does nothing.
//   packed      StagedCopies::packed: the host gathers into a pinned buffer, one copy follows.
//   batched     StagedCopies::gather / scatter: a copy a run of neighbouring rows, all handed over
//               at once.
// Rows past the counts are left alone by all of them.

#include <functional>
#include <utility>

#include "kernels/common/cuda_budget.h"
#include "kernels/common/cuda_stream.h"
#include "kernels/kv_gather/copies.h"

namespace kvlane::kernels::cuda {

// Rows and the packed buffer lie at multiples of 16 bytes. kv_tokens[i] is clamped to what the
// table holds, counts to the index, tokens to the sequence. `blocks` limits how much of the GPU the
// kernel takes (0: all that helps); a few per cent fill a PCIe link.
void kv_gather(const KvGather& args, Stream stream, int blocks = 0);
void kv_scatter(const KvGather& args, Stream stream, int blocks = 0);
Budget kv_gather_budget();

// cudaMemcpyBatchAsync where the runtime and the driver have it (CUDA 12.8), else a copy at a time.
// A batch needs a stream that is not the default one. In cuda_copy.cu.
void copy_batch(const Copies& copies, Stream stream);

// The ways that end in copies. Arrays of KvGather are on the host, kv.rows is host memory (pinned,
// else the copies are synchronous), args.packed device memory; scatter the other way round. Keeps
// its lists between calls, so a loop does not allocate; one call at a time.
class StagedCopies {
 public:
  using Copy = std::function<void(const Copies&, Stream)>;  // copy_batch, or a test's
  using Gather = std::function<void(const KvGather&)>;      // on the host: cpu::kv_gather
  StagedCopies(Copy copy, Gather gather) : copy_(std::move(copy)), gather_(std::move(gather)) {}

  // `staging`: pinned, as large as args.packed. It may be used again once the stream is past the
  // copy.
  void packed(const KvGather& args, void* staging, Stream stream) {
    KvGather on_host = args;
    on_host.packed = staging;
    gather_(on_host);
    copies_.clear();
    add_packed_copies(args, staging, copies_);
    run(stream);
  }
  void gather(const KvGather& args, Stream stream) {
    copies_.clear();
    add_gather_copies(args, copies_);
    run(stream);
  }
  void scatter(const KvGather& args, Stream stream) {
    copies_.clear();
    add_scatter_copies(args, copies_);
    run(stream);
  }

 private:
  void run(Stream stream) {
    if (copies_.size() > 0) copy_(copies_, stream);
  }
  Copy copy_;
  Gather gather_;
  Copies copies_;
};

}  // namespace kvlane::kernels::cuda
