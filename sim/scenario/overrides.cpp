#include "sim/scenario/overrides.h"

#include <algorithm>
#include <charconv>

#include "sim/scenario/schema.h"

namespace kvlane {

namespace {

SourcePlace column(const std::string& origin, std::size_t offset) {
  return {origin, 1, static_cast<int>(offset) + 1};
}

void move_places(YamlNode& node, std::size_t offset) {
  if (node.place.line == 1) node.place.column += static_cast<int>(offset);
  for (YamlNode& item : node.items) move_places(item, offset);
  for (auto& [key, value] : node.entries) {
    move_places(key, offset);
    move_places(value, offset);
  }
}

struct Step {
  std::string word;
  SourcePlace place;
};

// "a.b.c"; a name with dots in it stands in quotes: instances."node.1".tp
std::vector<Step> split_path(const std::string& path, const std::string& origin) {
  std::vector<Step> steps;
  std::size_t i = 0;
  while (true) {
    Step step{{}, column(origin, i)};
    if (i < path.size() && path[i] == '"') {
      const std::size_t end = path.find('"', i + 1);
      if (end == std::string::npos)
        throw InputError(column(origin, i), "a quote without its end", "expected a.b.c=value");
      step.word = path.substr(i + 1, end - i - 1);
      i = end + 1;
    } else {
      const std::size_t end = std::min(path.find('.', i), path.size());
      step.word = path.substr(i, end - i);
      i = end;
    }
    if (step.word.empty()) throw InputError(step.place, "an empty key", "expected a.b.c=value");
    steps.push_back(std::move(step));
    if (i == path.size()) return steps;
    if (path[i] != '.') throw InputError(column(origin, i), "text after a quote", "expected a dot");
    ++i;
  }
}

std::size_t list_position(const YamlNode& list, const Step& step) {
  std::size_t index = 0;
  const char* end = step.word.data() + step.word.size();
  const auto [stop, error] = std::from_chars(step.word.data(), end, index);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    const YamlNode* name = list.items[i].find("name");
    if (name == nullptr) continue;
    if (name->text == step.word) return i;
    names.push_back(name->text);
  }
  if (error == std::errc() && stop == end) {
    if (index < list.items.size()) return index;
    throw InputError(step.place, fmt::format("position {}", step.word),
                     fmt::format("expected a position below {}", list.items.size()));
  }
  throw InputError(step.place, "no item named `" + step.word + "`",
                   names.empty()
                       ? "expected a position, counted from 0"
                       : "expected one of " + join_words(names) + nearest_hint(step.word, names));
}

}  // namespace

void apply_override(YamlNode& root, const std::string& text, const std::string& origin) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos)
    throw InputError(column(origin, text.size()), "no `=`", "expected a.b.c=value");
  const std::vector<Step> steps = split_path(text.substr(0, equals), origin);
  if (text.find_first_not_of(' ', equals + 1) == std::string::npos)
    throw InputError(column(origin, equals + 1), "no value", "expected a.b.c=value");
  YamlNode value = parse_yaml(text.substr(equals + 1), origin);
  move_places(value, equals + 1);

  YamlNode* node = &root;
  for (const Step& step : steps) {
    if (node->kind == YamlNode::Kind::list) {
      node = &node->items[list_position(*node, step)];
      continue;
    }
    if (node->kind == YamlNode::Kind::scalar) {
      // The name of a preset: keep it as the base of what is changed.
      YamlNode base = std::move(*node);
      YamlNode key;
      key.kind = YamlNode::Kind::scalar;
      key.text = "base";
      key.place = base.place;
      *node = YamlNode{};
      node->place = base.place;
      node->entries.push_back({std::move(key), std::move(base)});
    }
    node->kind = YamlNode::Kind::mapping;
    if (YamlNode* next = node->find(step.word)) {
      node = next;
      continue;
    }
    YamlNode key;
    key.kind = YamlNode::Kind::scalar;
    key.text = step.word;
    key.place = step.place;
    YamlNode made;
    made.place = step.place;
    node->entries.push_back({std::move(key), std::move(made)});
    node = &node->entries.back().value;
  }
  *node = std::move(value);
}

std::string resolve_key(const YamlNode& root, const std::string& key) {
  std::string way;
  const YamlNode* node = &root;
  for (const Step& step : split_path(key, "key")) {
    std::string word = step.word;
    if (node != nullptr && node->kind == YamlNode::Kind::list) {
      const std::size_t position = list_position(*node, step);
      word = std::to_string(position);
      node = &node->items[position];
    } else if (node != nullptr) {
      node = node->find(word);
    }
    way += way.empty() ? word : '.' + word;
  }
  return way;
}

}  // namespace kvlane
