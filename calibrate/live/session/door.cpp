#include "calibrate/live/session/door.h"

#include <unistd.h>

namespace kvlane::live {
namespace {

constexpr std::size_t kMostWaiting = 64;

}  // namespace

int Door::next() {
  listener_.on_session([this](int socket, const Hello&) {
    if (waiting_.size() >= kMostWaiting) {
      ::close(waiting_.front());
      waiting_.pop_front();
    }
    waiting_.push_back(socket);
    loop_.stop();
  });
  loop_.hold();
  while (waiting_.empty()) loop_.run();
  loop_.release();
  const int fd = waiting_.front();
  waiting_.pop_front();
  return fd;
}

void Door::close() {
  for (const int fd : waiting_) ::close(fd);
  waiting_.clear();
  listener_.on_session([](int socket, const Hello&) { ::close(socket); });
}

}  // namespace kvlane::live
