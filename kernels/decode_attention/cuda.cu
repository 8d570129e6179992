// Decode attention over the whole KV. The kernel, its versions, bytes and expected times:
// kernels/common/cuda_attend.cu, which sparse attention shares.

#include "kernels/common/cuda_attend.h"
#include "kernels/decode_attention/cuda.h"

namespace kvlane::kernels::cuda {
namespace {

Attend attend_of(const DecodeAttention& args, int max_kv_tokens) {
  Attend a;
  a.sequences = args.sequences;
  a.query_heads = args.query_heads;
  a.query = args.query;
  a.kv = args.kv;
  a.kv_tokens = args.kv_tokens;
  a.max_tokens = max_kv_tokens;
  a.window = args.window;
  a.scale = args.scale;
  a.soft_cap = args.soft_cap;
  a.out = args.out;
  return a;
}

}  // namespace

std::size_t decode_attention_workspace(const DecodeAttention& args, int max_kv_tokens) {
  return attend_workspace(attend_of(args, max_kv_tokens));
}

void decode_attention(const DecodeAttention& args, int max_kv_tokens, Workspace workspace,
                      Stream stream) {
  attend(attend_of(args, max_kv_tokens), workspace, stream);
}

}  // namespace kvlane::kernels::cuda
