#include "sim/study/study_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "sim/report/result.h"
#include "sim/scenario/yaml_tree.h"
#include "sim/study/crossover.h"

namespace kvlane {
namespace {

using enum Need;

// The grid is enumerated by index: this many points are more than anyone will wait for.
constexpr std::size_t kMaxPoints = 10'000'000;

ValueType text_element() { return ValueType{ValueType::Kind::text}; }

PlacedText placed(const YamlNode& node) { return {read_text(node), node.place}; }

// A value of an axis may be any scalar: it goes to --set as it stands.
PlacedText scalar(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::scalar) {
    throw InputError(node.place, fmt::format("{} as a value of an axis", describe(node)),
                     "expected a scalar such as `25 Gbps`");
  }
  return {node.text, node.place};
}

struct StudyText {
  Study study;
  PlacedText scenario;
  std::string kind;
};

const Mapping<GridAxis>& axis_mapping() {
  static const Mapping<GridAxis> table =
      Mapping<GridAxis>("axis", "A key of the scenario and its values.")
          .text("key", &GridAxis::key, required,
                "Path as --set takes it, e.g. instances.decode.nic.rate.")
          .list_of("also", &GridAxis::also, text_element(), optional,
                   "Further paths that get the same value.", placed)
          .list_of("values", &GridAxis::values, text_element(), required,
                   "Values as they would stand in the scenario.", scalar);
  return table;
}

const Mapping<CrossoverQuestion>& crossover_mapping() {
  static const Mapping<CrossoverQuestion> table =
      Mapping<CrossoverQuestion>("crossover", "Where one strategy stops beating another.")
          .text("of", &CrossoverQuestion::of, required, "A strategy of the scenario.")
          .text("against", &CrossoverQuestion::against, required,
                "The strategy it is held against.")
          .text("metric", &CrossoverQuestion::metric, required,
                "ttft_s, ttst_s, second_token_s, stall_s, tbt_s or jct_s (means), or with .p50, "
                ".p90, "
                ".p99, .max.")
          .text("over", &CrossoverQuestion::over, required,
                "Key of an axis whose values are numbers.")
          .share("tolerance", &CrossoverQuestion::tolerance, optional,
                 "Width of the bracket that refinement ends with.", {1e-6, 1})
          .default_value("1 %");
  return table;
}

const Mapping<StudyText>& study_text_mapping() {
  static const Mapping<StudyText> table = [] {
    Mapping<StudyText> t("study", "A grid of runs of one scenario, and questions to it.");
    t.words("kind", &StudyText::kind, {{"study", "study"}}, required, "What this file is.")
        .text(
            "name", [](StudyText& s) -> std::string& { return s.study.name; }, required,
            "Name of the study.")
        .text(
            "description", [](StudyText& s) -> std::string& { return s.study.description; },
            optional, "What it asks.")
        .text("scenario", &StudyText::scenario, required, "Path of the scenario, from this file.")
        .list_of(
            "strategies",
            [](StudyText& s) -> std::vector<PlacedText>& { return s.study.strategies; },
            text_element(), optional, "Only these strategies; all without it.", placed)
        .list(
            "grid", [](StudyText& s) -> std::vector<GridAxis>& { return s.study.grid; },
            axis_mapping(), required, "The axes; the last one varies fastest.")
        .list(
            "crossovers",
            [](StudyText& s) -> std::vector<CrossoverQuestion>& { return s.study.crossovers; },
            crossover_mapping(), optional, "Crossover points to look for.")
        .integer(
            "uncertainty", [](StudyText& s) -> std::int64_t& { return s.study.uncertainty; },
            optional,
            "Draws of the errors that the hardware files state; each crossover gets the interval "
            "that 90 % of them fall in.",
            {kFewestDraws, kMostDraws});
    return t;
  }();
  return table;
}

void check_axes(const Study& study) {
  std::set<std::string> keys;
  std::size_t size = 1;
  for (const GridAxis& axis : study.grid) {
    if (!keys.insert(axis.key.text).second) {
      throw InputError(axis.key.place, fmt::format("a second axis `{}`", axis.key.text),
                       "expected each key once");
    }
    std::set<std::string> values;
    for (const PlacedText& value : axis.values) {
      if (!values.insert(value.text).second) {
        throw InputError(value.place, fmt::format("`{}` a second time", value.text),
                         "expected each value once");
      }
    }
    size *= axis.values.size();
    if (size > kMaxPoints) {
      throw InputError(axis.key.place, fmt::format("a grid of more than {} runs", kMaxPoints),
                       "expected fewer values");
    }
  }
}

void check_question(const Study& study, const CrossoverQuestion& question) {
  metric_column(question.metric);
  std::vector<std::string> keys;
  for (const GridAxis& axis : study.grid) {
    keys.push_back(axis.key.text);
    if (axis.key.text != question.over.text) continue;
    std::string unit;
    std::vector<double> numbers;
    for (const PlacedText& value : axis.values) {
      const AxisNumber number = parse_axis_number(value.text, value.place);
      if (!numbers.empty() && number.unit != unit) {
        throw InputError(value.place, fmt::format("`{}` beside a value in `{}`", value.text, unit),
                         "expected one unit on an axis that is asked for a crossover");
      }
      unit = number.unit;
      numbers.push_back(number.value);
      const std::size_t n = numbers.size();
      if (n >= 2 && numbers[n - 1] == numbers[n - 2]) {
        throw InputError(value.place, fmt::format("`{}` a second time", value.text),
                         "expected each value once");
      }
      if (n >= 3 && (numbers[n - 1] > numbers[n - 2]) != (numbers[1] > numbers[0])) {
        throw InputError(value.place, fmt::format("`{}` out of order", value.text),
                         "expected rising or falling values on an axis that is asked for a "
                         "crossover");
      }
    }
  }
  if (std::find(keys.begin(), keys.end(), question.over.text) == keys.end()) {
    throw InputError(question.over.place, fmt::format("no axis `{}`", question.over.text),
                     fmt::format("expected the key of an axis: {}{}", join_words(keys),
                                 nearest_hint(question.over.text, keys)));
  }
  if (question.of.text == question.against.text) {
    throw InputError(question.against.place,
                     fmt::format("`{}` against itself", question.against.text),
                     "expected another strategy");
  }
  if (study.strategies.empty()) return;  // the scenario knows them
  std::vector<std::string> names;
  for (const PlacedText& name : study.strategies) names.push_back(name.text);
  for (const PlacedText* name : {&question.of, &question.against}) {
    if (std::find(names.begin(), names.end(), name->text) == names.end()) {
      throw InputError(name->place,
                       fmt::format("`{}` is not among the study's strategies", name->text),
                       fmt::format("expected one of {}", join_words(names)));
    }
  }
}

}  // namespace

const MappingBase& study_mapping() { return study_text_mapping(); }

Study read_study(const std::string& path, InputFiles& files) {
  const SourcePlace place{path};
  StudyText text;
  study_text_mapping().read(parse_yaml(files.read(path, place), path), text);
  Study study = std::move(text.study);
  for (const InputFile& input : files.inputs()) {
    if (input.opened == path) study.file = input;
  }
  // A scenario is a file, never a preset: a name without a slash is one too.
  if (!looks_like_path(text.scenario.text)) text.scenario.text = "./" + text.scenario.text;
  study.scenario = files.find(text.scenario, "");
  std::set<std::string> strategies;
  for (const PlacedText& name : study.strategies) {
    if (!strategies.insert(name.text).second) {
      throw InputError(name.place, fmt::format("the strategy `{}` a second time", name.text),
                       "expected each strategy once");
    }
  }
  check_axes(study);
  for (const CrossoverQuestion& question : study.crossovers) check_question(study, question);
  return study;
}

}  // namespace kvlane
