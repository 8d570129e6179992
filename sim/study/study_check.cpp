#include "sim/study/study_check.h"

#include <fmt/format.h>

#include <map>

#include "sim/scenario/input_files.h"
#include "sim/scenario/overrides.h"
#include "sim/scenario/scenario_file.h"

namespace kvlane {
namespace {

struct Assignment {
  const PlacedText* key;
  const PlacedText* value;
  std::string text() const { return fmt::format("{}={}", key->text, value->text); }
};

class Checker {
 public:
  Checker(const Study& study, const std::vector<std::string>& set,
          const std::vector<std::string>& preset_dirs)
      : study_(study), preset_dirs_(preset_dirs) {
    InputFiles files(preset_dirs);
    root_ = parse_yaml(files.read(study.scenario, {study.scenario}), study.scenario);
    for (const std::string& text : set) apply_override(root_, text);
  }

  void check_keys() const {
    std::map<std::string, const PlacedText*> places;  // by the way through the scenario
    for (const GridAxis& axis : study_.grid) {
      check_key(axis.key, places);
      for (const PlacedText& key : axis.also) check_key(key, places);
    }
  }

  // The scenario with the first value of every axis but `axis`, and there the value `v`.
  Scenario read(std::size_t axis, std::size_t v) const {
    std::vector<Assignment> assignments;
    for (std::size_t a = 0; a < study_.grid.size(); ++a) {
      const GridAxis& swept = study_.grid[a];
      const PlacedText& value = swept.values[a == axis ? v : 0];
      assignments.push_back({&swept.key, &value});
      for (const PlacedText& key : swept.also) assignments.push_back({&key, &value});
    }
    try {
      YamlNode root = root_;
      for (std::size_t i = 0; i < assignments.size(); ++i)
        apply_override(root, assignments[i].text(), name_of(i));
      InputFiles files(preset_dirs_);
      return scenario_from_yaml(root, files);
    } catch (const InputError& error) {
      // What stands in an assignment is the study's; other errors come with the value that was
      // changed, unless it is the first of all.
      for (std::size_t i = 0; i < assignments.size(); ++i) {
        if (error.place().file == name_of(i)) fail(assignments[i], error, error.place().column);
      }
      if (v == 0) throw;
      const GridAxis& swept = study_.grid[axis];
      const Assignment changed{&swept.key, &swept.values[v]};
      fail(changed, error, static_cast<int>(swept.key.text.size()) + 2);
    }
  }

 private:
  // Two dashes: paths in it are relative to the working directory, as with --set.
  static std::string name_of(std::size_t i) { return fmt::format("--axis {}", i); }

  void check_key(const PlacedText& key, std::map<std::string, const PlacedText*>& places) const {
    std::string way;
    try {
      way = resolve_key(root_, key.text);
    } catch (const InputError& error) {
      throw InputError(key.place, fmt::format("`{}`: {}", key.text, error.found()),
                       error.expected());
    }
    if (way == "outputs" || way.rfind("outputs.", 0) == 0) {
      throw InputError(key.place, fmt::format("an axis `{}`", key.text),
                       "expected a key that a run depends on");
    }
    const auto [at, fresh] = places.emplace(way, &key);
    if (!fresh) {
      throw InputError(key.place,
                       fmt::format("`{}` is the key `{}` again", key.text, at->second->text),
                       "expected each key once");
    }
  }

  [[noreturn]] static void fail(const Assignment& at, const InputError& error, int column) {
    const bool in_key = column <= static_cast<int>(at.key->text.size());
    throw InputError(in_key ? at.key->place : at.value->place,
                     fmt::format("with `{}`: {}", at.text(), error.found()), error.expected());
  }

  const Study& study_;
  const std::vector<std::string>& preset_dirs_;
  YamlNode root_;
};

}  // namespace

void check_study(const Study& study, const std::vector<std::string>& set,
                 const std::vector<std::string>& preset_dirs) {
  const Checker checker(study, set, preset_dirs);
  checker.check_keys();
  for (std::size_t a = 0; a < study.grid.size(); ++a) {
    for (std::size_t v = a == 0 ? 0 : 1; v < study.grid[a].values.size(); ++v) {
      Scenario scenario = checker.read(a, v);
      if (a > 0 || v > 0) continue;
      keep_strategies(scenario, study.strategies);
      for (const CrossoverQuestion& question : study.crossovers) {
        Scenario asked = scenario;
        keep_strategies(asked, {question.of, question.against});
      }
    }
  }
}

}  // namespace kvlane
