#include "sim/cli/unfinished.h"

#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>

namespace kvlane::cli {
namespace {

// Fixed memory, since a signal handler may neither allocate nor lock.
struct Slot {
  enum State : int { empty, being_written, valid };
  std::atomic<int> state = empty;
  bool mounted = false;
  char path[4096];
};
std::array<Slot, 32> slots;
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void remove_unfinished(int signal) {
  // From the last to the first: files before the folders that were made for them.
  for (std::size_t i = slots.size(); i-- > 0;) {
    if (slots[i].state.load(std::memory_order_acquire) != Slot::valid) continue;
    if (slots[i].mounted) ::umount2(slots[i].path, MNT_DETACH);
    if (::unlink(slots[i].path) != 0) ::rmdir(slots[i].path);
  }
  ::_exit(128 + signal);
}

}  // namespace

void remove_unfinished_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction old {};
    if (::sigaction(signal, nullptr, &old) != 0 || old.sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_handler = remove_unfinished;
    ::sigfillset(&action.sa_mask);
    ::sigaction(signal, &action, nullptr);
  }
}

int note_unfinished(const std::string& path, bool mounted) {
  if (path.size() >= sizeof(Slot::path)) return -1;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    int expected = Slot::empty;
    if (!slots[i].state.compare_exchange_strong(expected, Slot::being_written)) continue;
    std::memcpy(slots[i].path, path.c_str(), path.size() + 1);
    slots[i].mounted = mounted;
    slots[i].state.store(Slot::valid, std::memory_order_release);
    return static_cast<int>(i);
  }
  return -1;
}

void forget_unfinished(int slot) {
  if (slot >= 0) slots[static_cast<std::size_t>(slot)].state.store(Slot::empty);
}

}  // namespace kvlane::cli
