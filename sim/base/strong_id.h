#pragma once
// Identifiers that do not mix: StrongId<Tag> is a small unsigned number with a type of its own.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace kvlane {

template <class Tag>
class StrongId {
 public:
  constexpr StrongId() = default;
  template <class Int>
  constexpr explicit StrongId(Int value) : value_(static_cast<std::uint32_t>(value)) {}
  constexpr std::uint32_t value() const { return value_; }
  constexpr std::size_t index() const { return value_; }
  constexpr bool is_valid() const { return value_ != kInvalid; }
  constexpr auto operator<=>(const StrongId&) const = default;

 private:
  static constexpr std::uint32_t kInvalid = 0xffffffffU;
  std::uint32_t value_ = kInvalid;
};

using RequestId = StrongId<struct RequestTag>;
using InstanceId = StrongId<struct InstanceTag>;
using EndpointId = StrongId<struct EndpointTag>;
using GpuId = StrongId<struct GpuTag>;
using LayerId = StrongId<struct LayerTag>;
using BlockId = StrongId<struct BlockTag>;
using LinkId = StrongId<struct LinkTag>;
using RegionId = StrongId<struct RegionTag>;

}  // namespace kvlane

template <class Tag>
struct std::hash<kvlane::StrongId<Tag>> {
  std::size_t operator()(kvlane::StrongId<Tag> id) const noexcept { return id.value(); }
};
