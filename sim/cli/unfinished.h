#pragma once
// Files and folders that must not outlive this process unless it finishes: SIGINT, SIGTERM and
// SIGHUP remove them and exit with 128 + the signal's number.

#include <string>

namespace kvlane::cli {

// Once, at the start. A signal that the caller had ignored stays ignored.
void remove_unfinished_on_signals();

// A slot for forget_unfinished(); -1 where none is free or the path is too long, which only means
// that a signal leaves it behind. Folders are removed when they are empty.
// `mounted`: something is mounted there, as on the file of a network namespace.
int note_unfinished(const std::string& path, bool mounted = false);
void forget_unfinished(int slot);

}  // namespace kvlane::cli
