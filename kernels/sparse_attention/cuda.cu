// Decode attention over selected rows. The kernel, its versions, bytes and expected times:
// kernels/common/cuda_attend.cu, which decode attention shares. An index entry (4 bytes) and a
// table entry come before a row; both are looked up a step ahead, so that rows wait for neither.
//
// Expected at 80 % of peak: 8 sequences x 8 kv heads x 2048 rows of 512 bytes (d 128, bf16): 67 MB;
// H100 25 us, A100 80 GB 41 us, L20 97 us, plus 5 us for two launches. Not measured.

#include "kernels/common/cuda_attend.h"
#include "kernels/sparse_attention/cuda.h"

namespace kvlane::kernels::cuda {
namespace {

Attend attend_of(const SparseAttention& args) {
  Attend a;
  a.sequences = args.sequences;
  a.query_heads = args.query_heads;
  a.query = args.query;
  a.kv = args.kv;
  a.kv_tokens = args.kv_tokens;
  a.max_tokens = args.index_width;
  a.index = args.index;
  a.index_count = args.index_count;
  a.index_width = args.index_width;
  a.indexed = true;
  a.scale = args.scale;
  a.soft_cap = args.soft_cap;
  a.out = args.out;
  return a;
}

}  // namespace

std::size_t sparse_attention_workspace(const SparseAttention& args) {
  return attend_workspace(attend_of(args));
}

void sparse_attention(const SparseAttention& args, Workspace workspace, Stream stream) {
  attend(attend_of(args), workspace, stream);
}

}  // namespace kvlane::kernels::cuda
