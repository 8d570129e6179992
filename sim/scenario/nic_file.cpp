#include "sim/scenario/nic_file.h"

namespace kvlane {

namespace {

constexpr double kMaxSge = 4096;

Mapping<NicFile> make_mapping() {
  using enum Need;
  const auto spec = [](auto member) {
    return [member](NicFile & f) -> auto& { return f.spec.*member; };
  };
  Mapping<NicFile> table("NIC file", "A network interface, each number with where it comes from.");
  table
      .sources(SourceRule::required, [](NicFile& f, const std::string& key,
                                        const SourceNote& note) { f.sources[key] = note; })
      .words("kind", &NicFile::kind, {{"nic", "nic"}}, required, "What this file is.")
      .text("name", spec(&NicSpec::name), required, "Name of the preset: that of the file.")
      .text("description", &NicFile::description, required, "One line for `kvlane list`.")
      .quantity(
          "rate", spec(&NicSpec::rate), optional,
          "Line rate of the port, each direction; 1 Kbps to 1 Pbps. A preset may leave it to the "
          "instance type.",
          kLinkRate)
      .share("efficiency", spec(&NicSpec::efficiency), optional,
             "Share of the line left after packet headers, at least 0.1 %; it depends on the MTU.",
             kLeastShare)
      .default_value("100 %")
      .quantity("message_rate", spec(&NicSpec::message_rate), UnitFamily::message_rate, optional,
                "Work requests a second of one queue pair, at least 1 Kmsg/s. Left out: no bound.",
                {1e3, 1e12})
      .quantity("latency", spec(&NicSpec::latency), optional,
                "One way, NIC to NIC, no switches; at most 10 s.", {0, 10})
      .default_value("0 us")
      .quantity("per_message", spec(&NicSpec::per_message), optional,
                "CPU time of posting one work request; at most 1 s.", kShortTime)
      .default_value("0 us")
      .quantity("per_doorbell", spec(&NicSpec::per_doorbell), optional,
                "CPU time of ringing the doorbell once; at most 1 s.", kShortTime)
      .default_value("0 us")
      .quantity("cpu_a_byte_sent", spec(&NicSpec::cpu_a_byte_sent), optional,
                "What a byte that leaves takes from kernels on the same processors, where a CPU "
                "computes; at most 1 us.",
                {0, 1e-6})
      .default_value("0 us")
      .quantity("cpu_a_byte_received", spec(&NicSpec::cpu_a_byte_received), optional,
                "Likewise a byte that arrives.", {0, 1e-6})
      .default_value("0 us")
      .integer("max_send_sge", spec(&NicSpec::max_send_sge), optional,
               "Scatter-gather entries of a SEND or WRITE.", {1, kMaxSge})
      .default_value("30")
      .integer("max_recv_sge", spec(&NicSpec::max_recv_sge), optional,
               "Scatter-gather entries of a RECV.", {1, kMaxSge})
      .default_value("30")
      .integer("max_read_sge", spec(&NicSpec::max_read_sge), optional,
               "Scatter-gather entries of a READ.", {1, kMaxSge})
      .default_value("30")
      .quantity("max_inline", spec(&NicSpec::max_inline), optional,
                "Largest message that travels inside its work request.", {0, 65536})
      .default_value("0 B")
      .quantity("mtu", spec(&NicSpec::mtu), optional, "Payload of a packet.", {256, 65536})
      .default_value("4096 B")
      .boolean("gpu_direct", spec(&NicSpec::gpu_direct), optional,
               "The NIC reads and writes GPU memory itself.")
      .default_value("true")
      .boolean("lane_priority", spec(&NicSpec::lane_priority), optional,
               "Lanes have strict priority on this port; without, all flows share alike.")
      .default_value("true")
      .share("error", spec(&NicSpec::error), optional,
             "Mean absolute error of the times that these numbers give, on transfers held out of "
             "the fit; what `run --uncertainty` draws from. Left out: nobody knows.",
             {0, 2});
  return table;
}

}  // namespace

const Mapping<NicFile>& nic_file_mapping() {
  static const Mapping<NicFile> table = make_mapping();
  return table;
}

const Mapping<NicFile>& nic_changes_mapping() {
  static const Mapping<NicFile> table =
      nic_file_mapping().as_changes("NIC changes", "A NIC preset with some values changed.");
  return table;
}

NicFile read_nic_file(const YamlNode& root) {
  NicFile file;
  nic_file_mapping().read(root, file);
  return file;
}

NicFile read_nic(const YamlNode& node, InputFiles& files) {
  const YamlNode* base = node.kind == YamlNode::Kind::mapping ? node.find("base") : &node;
  NicFile file;
  if (base == nullptr) nic_changes_mapping().read(node, file);  // says that `base` is missing
  const std::string path = files.find({read_text(*base), base->place}, "hardware");
  file = read_nic_file(parse_yaml(files.read(path, base->place), path));
  if (base != &node) nic_changes_mapping().read(node, file);
  return file;
}

}  // namespace kvlane
