#pragma once
// Where a link was measured: what a reader of its numbers must know.

#include <cstdint>
#include <optional>
#include <string>

#include "calibrate/live/link/link_role.h"

namespace kvlane::live {

struct LinkPlace {
  // loopback: one host, one network stack or shared memory. virtual: one host, two network
  // namespaces. rxe: RDMA in software. hardware: none of these.
  std::string mark;
  std::string kernel;            // release
  std::string interface;         // of the measuring end's address; empty where there is none
  std::int64_t mtu_bytes = 0;    // of the interface; 0: unknown
  std::string rdma_device, gid;  // empty: no RDMA, or not known
  std::int64_t processors = 0;   // that this process may use
};

// `root`: "" or, for tests, a folder with proc/ and sys/.
LinkPlace link_place(const std::string& transport, const SocketAddress& own,
                     const SocketAddress& peer, bool same_host, const LiveOptions& options,
                     const std::string& root = "");

}  // namespace kvlane::live
