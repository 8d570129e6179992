#include "calibrate/measure/gpu/gpu_memory.h"

#include <cstring>
#include <utility>

#include "calibrate/measure/kernel_calls.h"
#include "calibrate/measure/memory_grid.h"
#include "kernels/common/cuda_read.h"

namespace kvlane::calibrate {

namespace cuda = kernels::cuda;

GpuMemory::GpuMemory(Operands& device, Operands& pinned, cuda::Stream stream, HostGather gather)
    : device_(device),
      pinned_(pinned),
      stream_(stream),
      other_way_(cuda::create_stream()),
      begun_(cuda::create_event()),
      other_done_(cuda::create_event()),
      can_pack_(gather != nullptr),
      staged_(cuda::copy_batch, std::move(gather)) {}

bool GpuMemory::host_works(const Sample& shape) {
  // The runtime itself moves pageable memory through a pinned buffer; lists of copies are made by
  // the host.
  return shape.variant == kToDevicePageable || shape.variant == kToHostPageable ||
         shape.variant == kGatherPacked || shape.variant == kGatherCopies;
}

Call GpuMemory::copy(const Sample& shape) {
  const auto bytes = static_cast<std::size_t>(shape.shape[0]);
  const auto room = static_cast<double>(bytes);
  const auto one = [bytes, stream = stream_](void* to, const void* from) -> Call {
    return [=] { cuda::copy(to, from, bytes, stream); };
  };
  if (shape.variant == kMemoryCopy)
    return one(device_.out<std::byte>(room), device_.in<std::byte>(room));
  if (shape.variant == kToDevice)
    return one(device_.out<std::byte>(room), pinned_.in<std::byte>(room));
  if (shape.variant == kToHost)
    return one(pinned_.out<std::byte>(room), device_.in<std::byte>(room));
  if (shape.variant == kToDevicePageable) {
    const std::byte* values = pinned_.in<std::byte>(room);
    pageable_.assign(values, values + bytes);
    return one(device_.out<std::byte>(room), pageable_.data());
  }
  if (shape.variant == kToHostPageable) {
    pageable_.resize(bytes);
    return one(pageable_.data(), device_.in<std::byte>(room));
  }
  if (shape.variant != kBothWays) return {};
  void* const on_device = device_.out<std::byte>(room);
  const void* const from_host = pinned_.in<std::byte>(room);
  void* const on_host = pinned_.out<std::byte>(room);
  const void* const from_device = device_.in<std::byte>(room);
  return [=, stream = stream_, other = other_way_.get(), begun = begun_.get(),
          done = other_done_.get()] {
    cuda::record(begun, stream);
    cuda::wait(other, begun);
    cuda::copy(on_device, from_host, bytes, stream);
    cuda::copy(on_host, from_device, bytes, other);
    cuda::record(done, other);
    cuda::wait(stream, done);
  };
}

Call GpuMemory::gather(const Sample& shape) {
  const bool scatter = shape.kernel == "kv_scatter";
  // The lists are read by whoever walks over the rows.
  const bool by_kernel = shape.variant == kGatherZeroCopy;
  const bool packed = shape.variant == kGatherPacked;
  if (!by_kernel && !packed && shape.variant != kGatherCopies) return {};
  if (packed && (scatter || !can_pack_)) return {};
  const kernels::KvGather args =
      gather_arguments(shape, pinned_, device_, by_kernel ? device_ : pinned_);
  if (by_kernel) {
    return [=, stream = stream_] {
      scatter ? cuda::kv_scatter(args, stream) : cuda::kv_gather(args, stream);
    };
  }
  if (packed) {
    const double rows = static_cast<double>(args.sequences) * args.kv.kv_heads * args.index_width;
    void* const staging = pinned_.out<std::byte>(rows * static_cast<double>(args.kv.row_bytes()));
    return [=, &staged = staged_, stream = stream_] { staged.packed(args, staging, stream); };
  }
  return [=, &staged = staged_, stream = stream_] {
    scatter ? staged.scatter(args, stream) : staged.gather(args, stream);
  };
}

Call GpuMemory::call(const Sample& shape) {
  if (shape.kernel == "read") {
    const auto bytes = static_cast<std::size_t>(shape.shape[0]);
    const void* from = device_.in<std::byte>(static_cast<double>(bytes));
    auto* sum = device_.out<std::uint32_t>(1);
    return [=, stream = stream_] { cuda::sum_words(from, bytes, sum, stream); };
  }
  if (shape.kernel == "copy") return copy(shape);
  if (shape.kernel == "kv_gather" || shape.kernel == "kv_scatter") return gather(shape);
  return {};
}

}  // namespace kvlane::calibrate
