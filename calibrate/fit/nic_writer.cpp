// NIC files: the keys of sim/scenario/nic_file.cpp, those that the NIC states.

#include <fmt/format.h>

#include <string>

#include "calibrate/fit/nic_fit.h"
#include "calibrate/fit/yaml_text.h"
#include "sim/scenario/quantity.h"

namespace kvlane::calibrate {

std::string nic_text(const NicFile& nic) {
  const NicSpec& spec = nic.spec;
  std::string out = fmt::format("kind: nic\nname: {}\ndescription: {}\n", yaml_quoted(spec.name),
                                yaml_quoted(nic.description));
  const auto line = [&](const char* key, const std::string& value) {
    const auto note = nic.sources.find(key);
    if (note == nic.sources.end()) return;  // left to its default
    out += fmt::format("{}: {}\n", key, yaml_noted(value, note->second.source, note->second.from));
  };
  line("rate", format_rate(spec.rate.bits_per_sec()));
  line("efficiency", value_text(spec.efficiency, ValueUnit::share));
  line("message_rate", value_text(spec.message_rate, ValueUnit::message_rate));
  line("latency", format_time(spec.latency.count()));
  line("per_message", format_time(spec.per_message.count()));
  line("per_doorbell", format_time(spec.per_doorbell.count()));
  line("cpu_a_byte_sent", format_time(spec.cpu_a_byte_sent.count()));
  line("cpu_a_byte_received", format_time(spec.cpu_a_byte_received.count()));
  line("max_send_sge", fmt::format("{}", spec.max_send_sge));
  line("max_recv_sge", fmt::format("{}", spec.max_recv_sge));
  line("max_read_sge", fmt::format("{}", spec.max_read_sge));
  line("max_inline", format_size(spec.max_inline.count()));
  line("mtu", format_size(spec.mtu.count()));
  out += fmt::format("gpu_direct: {}\nlane_priority: {}\n", spec.gpu_direct, spec.lane_priority);
  if (spec.error) line("error", value_text(*spec.error, ValueUnit::share));
  return out;
}

}  // namespace kvlane::calibrate
