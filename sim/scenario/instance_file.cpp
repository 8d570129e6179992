#include "sim/scenario/instance_file.h"

namespace kvlane {

namespace {

constexpr std::string_view kFileEnd = "-instances.yaml";

const Mapping<InstanceType>& instance_type_mapping() {
  using enum Need;
  static const Mapping<InstanceType> table =
      Mapping<InstanceType>("instance type", "One instance type of a provider.")
          .sources(SourceRule::optional, [](InstanceType& t, const std::string& key,
                                            const SourceNote& note) { t.sources[key] = note; })
          .text("name", &InstanceType::name, required, "Name that the provider gives it.")
          .text("description", &InstanceType::description, optional, "What is special about it.")
          .text("gpu", &InstanceType::gpu, required, "GPU preset.")
          .integer("gpus", &InstanceType::gpus, required, "GPUs an instance.", {1, 64})
          .text("nic", &InstanceType::nic, required, "NIC preset.")
          .quantity("rate", &InstanceType::rate, required,
                    "Baseline network rate: what the instance holds for ever.", kLinkRate)
          .quantity("burst", &InstanceType::burst, optional,
                    "Rate that it reaches for a while; for the record, the simulator uses `rate`.",
                    kLinkRate)
          .quantity("host_memory", &InstanceType::host_memory, optional, "Host memory.",
                    kMemorySize)
          .quantity("price", &InstanceType::price, UnitFamily::price, optional,
                    "On demand, an instance; at most 1000000 USD/h.", kPrice);
  return table;
}

}  // namespace

const Mapping<InstanceFile>& instance_file_mapping() {
  using enum Need;
  static const Mapping<InstanceFile> table =
      Mapping<InstanceFile>("instance file", "Instance types of one family of a provider.")
          .words("kind", &InstanceFile::kind, {{"instance_types", "instance_types"}}, required,
                 "What this file is.")
          .text("name", &InstanceFile::name, required, "Name of the family.")
          .text("description", &InstanceFile::description, required, "One line for `kvlane list`.")
          .words(
              "source", [](InstanceFile& f) -> Source& { return f.source.source; },
              {{"measured", Source::measured},
               {"table", Source::table},
               {"extrapolated", Source::extrapolated},
               {"datasheet", Source::datasheet},
               {"assumed", Source::assumed}},
              required, "How far the values without a source of their own can be trusted.")
          .text(
              "from", [](InstanceFile& f) -> std::string& { return f.source.from; }, required,
              "Where they come from.")
          .list("types", &InstanceFile::types, instance_type_mapping(), required,
                "The instance types.");
  return table;
}

InstanceFile read_instance_file(const YamlNode& root) {
  InstanceFile file;
  instance_file_mapping().read(root, file);
  for (InstanceType& type : file.types) type.file_source = file.source;
  for (std::size_t i = 0; i < file.types.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (file.types[i].name == file.types[j].name)
        throw InputError(node_at(root, {"types", i, "name"}).place,
                         "the instance type `" + file.types[i].name + "` a second time",
                         "expected every name once");
  return file;
}

InstanceType find_instance_type(const PlacedText& name, InputFiles& files) {
  std::vector<std::string> names;
  for (const std::string& path : files.list("hardware")) {
    if (path.size() < kFileEnd.size() ||
        path.compare(path.size() - kFileEnd.size(), kFileEnd.size(), kFileEnd) != 0)
      continue;
    const InstanceFile file = read_instance_file(parse_yaml(files.peek(path, name.place), path));
    for (const InstanceType& type : file.types) {
      if (type.name == name.text) {
        files.read(path, name.place);
        return type;
      }
      names.push_back(type.name);
    }
  }
  throw InputError(name.place, "no instance type `" + name.text + "` in hardware/",
                   "expected an instance type" + nearest_hint(name.text, names) +
                       ", or gpu, gpus and nic in its place");
}

}  // namespace kvlane
