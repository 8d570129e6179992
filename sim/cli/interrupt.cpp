#include "sim/cli/interrupt.h"

#include <atomic>

namespace kvlane::cli {
namespace {

std::atomic<int> arrived = 0;
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void note_signal(int signal) { arrived.store(signal); }

void install(int signal, struct sigaction& old) {
  struct sigaction action {};
  action.sa_handler = note_signal;
  // The second one finds the default again.
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(signal, nullptr, &old);
  // Ignored by the caller (nohup): it stays so.
  if (old.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);
}

}  // namespace

Interrupt::Interrupt() {
  arrived.store(0);
  install(SIGINT, old_int_);
  install(SIGTERM, old_term_);
}

Interrupt::~Interrupt() {
  ::sigaction(SIGINT, &old_int_, nullptr);
  ::sigaction(SIGTERM, &old_term_, nullptr);
}

bool Interrupt::came() { return arrived.load() != 0; }

int Interrupt::status() {
  const int signal = arrived.load();
  return signal == 0 ? 0 : 128 + signal;
}

}  // namespace kvlane::cli
