#pragma once
// Looks at every message before the serving side hears of it: does all that it names exist, and,
// where asked, do the bytes that it announces lie in place? A region is filled with a pattern of
// its (run, request), so that a byte of another place, request or run shows.

#include <string>
#include <vector>

#include "calibrate/live/memory/pool.h"
#include "calibrate/live/transport/live_transport.h"
#include "sim/serving/environment.h"

namespace kvlane::live {

class ByteInspector final : public Inspector {
 public:
  // Whether the request is between this side and the peer.
  using Between = std::function<bool(EndpointId peer, RequestId request)>;
  // `plans` and `regions` outlive it. `decode`: which side this is.
  ByteInspector(const std::vector<RequestPlan>& plans, RegionTable& regions, bool decode,
                std::uint64_t run, bool verify, Between between)
      : plans_(plans),
        regions_(regions),
        decode_(decode),
        run_(run),
        verify_(verify),
        between_(std::move(between)) {}

  std::string problem(EndpointId from, const Message& message) override;
  void arrived(EndpointId from, const Message& message) override;
  void fetched(std::span<const Fragment> fragments) override;

  // Bytes of `region` that are neither as they should be nor as they were: what nobody announced
  // must not have been written over. A byte that has not arrived is 0.
  // `breathe` is called now and then.
  std::int64_t strayed(RegionId region, const std::function<void()>& breathe);

  std::int64_t verified() const { return verified_; }  // bytes
  std::int64_t wrong() const { return wrong_; }
  std::uint64_t seed_of(RegionId region) const { return run_ << 20U | region.value(); }

 private:
  std::string rows_problem(const Message& message) const;
  void verify(std::span<const Fragment> fragments);

  const std::vector<RequestPlan>& plans_;
  RegionTable& regions_;
  bool decode_;
  std::uint64_t run_;
  bool verify_;
  Between between_;
  std::int64_t verified_ = 0, wrong_ = 0;
  std::vector<Fragment> pieces_;
};

}  // namespace kvlane::live
