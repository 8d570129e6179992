#include "calibrate/live/role/choice.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "calibrate/live/shm/shm_backend.h"
#include "calibrate/live/tcp/tcp_backend.h"
#include "sim/base/check.h"
#include "sim/run/strategy_run.h"

namespace kvlane::live {
namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  std::stringstream in(text);
  for (std::string word; std::getline(in, word, ',');) words.push_back(word);
  return words;
}

RdmaOptions rdma_options(const LiveOptions& options) {
  RdmaOptions rdma;
  rdma.device = options.rdma_device;
  rdma.gid_index = options.gid_index;
  return rdma;
}

}  // namespace

bool lists(const std::string& words, const std::string& word) {
  const std::vector<std::string> all = split(words);
  return std::find(all.begin(), all.end(), word) != all.end();
}

std::string abilities(const LiveOptions& options) {
  const bool automatic = options.transport == TransportKind::automatic;
  std::string obstacle;
  if (automatic || options.transport == TransportKind::rdma) {
    obstacle = options.rdma.open == nullptr
                   ? "no RDMA device: this program was built without verbs; expected one built "
                     "with libibverbs (KVLANE_RDMA=ON)"
                   : options.rdma.obstacle(rdma_options(options));
  }
  if (automatic) return obstacle.empty() ? "rdma,shm,tcp" : "shm,tcp";
  if (!obstacle.empty()) throw RunError("--transport rdma: " + obstacle);
  return to_string(options.transport);
}

std::string choose_transport(const std::string& ours, const std::string& theirs, bool same_host,
                             TransportKind asked) {
  if (same_host && lists(ours, "shm") && lists(theirs, "shm")) return "shm";
  for (const std::string& name : split(ours)) {
    if (name == "shm" && !same_host) {
      if (asked == TransportKind::shm) {
        throw RunError("--transport shm: the peer is on another host; expected both roles on one");
      }
      continue;
    }
    if (lists(theirs, name)) return name;
  }
  throw RunError(fmt::format("no transport in common: {} here, {} at the peer", ours, theirs));
}

ComputeKind choose_compute(const LiveOptions& options) {
  if (options.compute != ComputeKind::automatic && options.compute != ComputeKind::cuda) {
    return options.compute;
  }
  const std::string obstacle =
      options.cuda.open == nullptr
          ? "this program was built without CUDA; expected one built with KVLANE_CUDA=ON"
          : options.cuda.obstacle();
  if (obstacle.empty()) return ComputeKind::cuda;
  if (options.compute == ComputeKind::cuda) throw RunError("--compute cuda: " + obstacle);
  return ComputeKind::cpu;
}

std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  // UNIX sockets by name do not reach another network namespace.
  std::error_code error;
  return id + ' ' + std::filesystem::read_symlink("/proc/self/ns/net", error).string();
}

std::unique_ptr<Backend> open_backend(const std::string& name, WallLoop& loop, Pool& pool,
                                      Listener* listener, const SocketAddress& own,
                                      const SocketAddress& peer, const LiveOptions& options) {
  if (name == "rdma") {
    RdmaOptions rdma = rdma_options(options);
    rdma.address = own.host();
    // The session may run over another network than the data.
    if (!options.rdma.obstacle(rdma).empty()) rdma.address.clear();
    return options.rdma.open(loop, pool, rdma);
  }
  if (name == "shm") return std::make_unique<ShmBackend>(loop, pool);
  KVLANE_CHECK(name == "tcp", "transport {}", name);
  return std::make_unique<TcpBackend>(loop, listener, peer);
}

}  // namespace kvlane::live
