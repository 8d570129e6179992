#pragma once
// What a live run is asked for beside its scenario.

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "calibrate/live/compute/cuda_access.h"
#include "calibrate/live/rdma/rdma.h"
#include "sim/base/units.h"

namespace kvlane::live {

// A word of the command line that makes no sense; one line.
class OptionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class TransportKind : std::uint8_t { automatic, shm, tcp, rdma, modeled };
enum class ComputeKind : std::uint8_t { automatic, cpu, cuda, modeled };
const char* to_string(TransportKind kind);
const char* to_string(ComputeKind kind);

struct LiveOptions {
  TransportKind transport = TransportKind::automatic;
  ComputeKind compute = ComputeKind::automatic;
  std::string secret;                // empty: none, loopback only
  std::string version;               // of this program
  std::vector<std::string> changes;  // to the scenario, beside its files
  int ends_here = 1;                 // that hold the scenario's KV in the memory of this host
  bool verify = false;               // every byte of KV, where it arrives
  bool checksum = false;             // CRC-32 over every operation, below the port
  Duration timeout = std::chrono::seconds(10);  // operations in flight and nothing moves
  Duration silence = std::chrono::minutes(5);   // of a decode role while the peers only compute
  Duration lease = std::chrono::seconds(5);     // nothing heard of a peer
  Duration connect = std::chrono::seconds(30);  // until a peer listens, and for each handshake
  int threads = 1;                              // of a GPU's kernels, --compute cpu
  std::vector<int> processors;                  // where this role runs; empty: anywhere
  CudaAccess cuda;                              // empty: this program has no CUDA
  RdmaAccess rdma;                              // empty: this program has no verbs
  std::string rdma_device;                      // empty: the first that fits
  int gid_index = -1;                           // -1: by type and address
};

// Told a line for the user.
using Say = std::function<void(const std::string& line)>;

}  // namespace kvlane::live
