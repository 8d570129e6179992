#pragma once
// Two network namespaces joined by a veth pair whose two directions are held to a rate by tbf: a
// link of known speed on one machine. Needs root, `ip` and `tc` (package iproute2). Namespaces bear
// this process's number; they are gone with the object.

#include <functional>
#include <memory>
#include <string>

#include "sim/base/units.h"

namespace kvlane::live {

class ShapedPair {
 public:
  // Throws RunError with the tool's own words; OptionError without root or tools.
  // `about_to_make`: called with the path of each namespace before there is one.
  using AboutToMake = std::function<void(const std::string& space)>;
  explicit ShapedPair(Bandwidth rate, const AboutToMake& about_to_make = nullptr);
  ~ShapedPair();
  ShapedPair(const ShapedPair&) = delete;
  ShapedPair& operator=(const ShapedPair&) = delete;

  // Path of a namespace, for setns().
  std::string prefill_space() const;
  std::string decode_space() const;
  // Addresses of the ends.
  std::string prefill_address() const { return "10.213.7.1"; }
  std::string decode_address() const { return "10.213.7.2"; }

 private:
  std::string prefill_, decode_;
};

// This thread, and what it starts, into a namespace.
void enter_space(const std::string& path);

}  // namespace kvlane::live
