#pragma once
// A gather as a list of copies, for engines that copy runs of bytes: what the GPU's copy engines
// and RDMA take. All arrays of KvGather are on the host here; kv.rows and packed are addresses of
// any memory, which is not looked at.

#include <cstddef>
#include <vector>

#include "kernels/kv_gather/kernel.h"

namespace kvlane::kernels {

struct Copies {  // three arrays side by side: as cudaMemcpyBatchAsync takes them
  std::vector<void*> to;
  std::vector<const void*> from;
  std::vector<std::size_t> bytes;

  std::size_t size() const { return bytes.size(); }
  void clear() {
    to.clear();
    from.clear();
    bytes.clear();
  }
  // Joined to the last one where both sides go on where it ends.
  void add(void* destination, const void* source, std::size_t count);
};

// Appends the rows of the selection, a run of neighbouring tokens of a block as one copy. Throws as
// kv_gather does.
void add_gather_copies(const KvGather& args, Copies& copies);
void add_scatter_copies(const KvGather& args, Copies& copies);
// The packed buffer `from` to args.packed, without the rows past the counts: one copy where every
// row of the index is full.
void add_packed_copies(const KvGather& args, const void* from, Copies& copies);

}  // namespace kvlane::kernels
