#pragma once
// The KV of one endpoint in one run: a region for each of its requests, filled, looked at as bytes
// arrive and at the end, given back.

#include <functional>
#include <vector>

#include "calibrate/live/memory/pool.h"
#include "calibrate/live/role/byte_inspector.h"
#include "sim/run/deployment.h"

namespace kvlane::live {

// Room for the regions of any strategy, at one endpoint.
std::int64_t most_region_bytes(const Scenario& scenario, Workload& workload);
// RunError where this host has no room for so many bytes at `ends` endpoints.
void check_memory(std::int64_t bytes, std::int64_t ends);

class RunMemory {
 public:
  // `run`: its number, alike at both ends. `breathe` is called now and then while it fills.
  // Arguments outlive it.
  RunMemory(Deployment& deployment, RegionTable& regions, EndpointId here, EndpointId decode,
            std::uint64_t run, bool verify, const std::function<void()>& breathe);
  RunMemory(const RunMemory&) = delete;
  RunMemory& operator=(const RunMemory&) = delete;

  // Regions as peers may use them: at a prefill endpoint with the pattern, at decode empty.
  std::vector<RegionPlace> expose();
  ByteInspector& inspector() { return inspector_; }
  // RunError where bytes are wrong, or lie where none belong; how many were looked at.
  std::int64_t check();
  // Nothing is in flight: nobody writes any more.
  void withdraw();

 private:
  Deployment& deployment_;
  RegionTable& table_;
  EndpointId here_, decode_;
  bool verify_;
  const std::function<void()>& breathe_;
  ByteInspector inspector_;
  std::vector<RegionId> regions_;
};

}  // namespace kvlane::live
