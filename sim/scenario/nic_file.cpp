#include "sim/scenario/nic_file.h"

namespace kvlane {

namespace {

constexpr double kMaxSge = 4096;

// The keys that presets and inline mappings share.
Mapping<NicFile> add_nic_keys(Mapping<NicFile> table) {
  using enum Need;
  const auto spec = [](auto member) {
    return [member](NicFile & f) -> auto& { return f.spec.*member; };
  };
  table
      .quantity(
          "rate", spec(&NicSpec::rate), optional,
          "Line rate of the port, each direction. A preset may leave it to the instance type.",
          kPositive)
      .share("efficiency", spec(&NicSpec::efficiency), optional,
             "Share of the line left after packet headers; it depends on the MTU.", {0, 1, true})
      .default_value("100 %")
      .quantity("message_rate", spec(&NicSpec::message_rate), UnitFamily::message_rate, optional,
                "Work requests a second of one queue pair. Left out: no bound.", kPositive)
      .quantity("latency", spec(&NicSpec::latency), optional, "One way, NIC to NIC, no switches.")
      .default_value("0 us")
      .quantity("per_message", spec(&NicSpec::per_message), optional,
                "CPU time of posting one work request.")
      .default_value("0 us")
      .quantity("per_doorbell", spec(&NicSpec::per_doorbell), optional,
                "CPU time of ringing the doorbell once.")
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
                "Largest message that travels inside its work request.")
      .default_value("0 B")
      .quantity("mtu", spec(&NicSpec::mtu), optional, "Payload of a packet.", {256, 65536})
      .default_value("4096 B")
      .boolean("gpu_direct", spec(&NicSpec::gpu_direct), optional,
               "The NIC reads and writes GPU memory itself.")
      .default_value("true")
      .boolean("lane_priority", spec(&NicSpec::lane_priority), optional,
               "Lanes have strict priority on this port; without, all flows share alike.")
      .default_value("true");
  return table;
}

Mapping<NicFile> make_inline_mapping() {
  Mapping<NicFile> table("NIC options", "A NIC preset with some values changed.");
  // `base` is read by read_nic() before the rest; here it is only known.
  table.custom("base", ValueType(), Need::required,
               "Preset of scenarios/hardware, or the path of a NIC file.",
               [](NicFile&, const YamlNode& n) { read_text(n); });
  return add_nic_keys(std::move(table));
}

const Mapping<NicFile>& inline_mapping() {
  static const Mapping<NicFile> table = make_inline_mapping();
  return table;
}

}  // namespace

const Mapping<NicFile>& nic_file_mapping() {
  static const Mapping<NicFile> table = [] {
    using enum Need;
    Mapping<NicFile> t("NIC file", "A network interface, each number with where it comes from.");
    t.sources(SourceRule::required, [](NicFile& f, const std::string& key, const SourceNote& note) {
      f.sources[key] = note;
    });
    t.words("kind", &NicFile::kind, {{"nic", "nic"}}, required, "What this file is.")
        .text(
            "name", [](NicFile& f) -> std::string& { return f.spec.name; }, required,
            "Name of the preset: that of the file.")
        .text("description", &NicFile::description, required, "One line for `kvlane list`.");
    return add_nic_keys(std::move(t));
  }();
  return table;
}

const MappingBase& nic_inline_mapping() { return inline_mapping(); }

NicFile read_nic_file(const YamlNode& root) {
  NicFile file;
  nic_file_mapping().read(root, file);
  return file;
}

NicFile read_nic(const YamlNode& node, InputFiles& files) {
  const YamlNode* name = &node;
  if (node.kind == YamlNode::Kind::mapping) {
    name = node.find("base");
    if (name == nullptr) {
      NicFile unused;
      inline_mapping().read(node, unused);  // names what is wrong: at least `base` is missing
    }
  }
  const std::string path = files.find({read_text(*name), name->place}, "hardware");
  const YamlNode root = parse_yaml(files.read(path, name->place), path);
  NicFile file = read_nic_file(root);
  if (node.kind == YamlNode::Kind::mapping) inline_mapping().read(node, file);
  return file;
}

}  // namespace kvlane
