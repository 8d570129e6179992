#include "sim/scenario/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <sstream>

namespace kvlane {

namespace {

constexpr const char* kPlainYaml = "expected plain YAML: mappings, lists and scalars";

// Length of the UTF-8 sequence at the start of `text`, 0 where it is broken.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // Overlong forms, surrogates and values beyond U+10FFFF.
  if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
      (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f))
    return 0;
  return length;
}

// Escapes in quotes can write what check_characters() refuses, and yaml-cpp writes \N and \_ as
// single bytes.
void check_value(std::string_view value, const SourcePlace& place) {
  const char* expected = "expected text on one line (`>-` folds lines into one)";
  for (std::size_t i = 0; i < value.size();) {
    const std::size_t length = utf8_length(value.substr(i));
    if (value[i] == '\n') throw InputError(place, "a value of several lines", expected);
    if (length == 0 || is_control(value, i))
      throw InputError(place,
                       fmt::format("a value with the control character 0x{:02x}",
                                   static_cast<unsigned char>(value[i + (length == 2 ? 1 : 0)])),
                       expected);
    i += length;
  }
}

// Builds the tree; `open_` holds the containers that are not closed yet. Pointers into the tree
// stay valid, since only the innermost container grows.
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string file) : file_(std::move(file)) {}
  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1)
      throw InputError(place(mark), "a second document", "expected one document in a file");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    put(make(YamlNode::Kind::null, mark));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw InputError(place(mark), "an alias (`*`)", kPlainYaml);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    if (tag != "?" && tag != "!" && !tag.empty())
      throw InputError(place(mark), fmt::format("the tag `{}`", tag), kPlainYaml);
    check_value(value, place(mark));
    YamlNode node = make(YamlNode::Kind::scalar, mark);
    node.text = value;
    node.quoted = tag == "!";
    put(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    begin(YamlNode::Kind::list, mark, tag, anchor);
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    begin(YamlNode::Kind::mapping, mark, tag, anchor);
  }
  void OnMapEnd() override { open_.pop_back(); }

 private:
  struct Open {
    YamlNode* node;
    bool key_next;
  };
  SourcePlace place(const YAML::Mark& mark) const {
    return {file_, mark.line + 1, mark.column + 1};
  }
  YamlNode make(YamlNode::Kind kind, const YAML::Mark& mark) {
    if (++nodes_ > kYamlMaxNodes)
      throw InputError(place(mark), fmt::format("more than {} values", kYamlMaxNodes),
                       "expected a smaller file");
    YamlNode node;
    node.kind = kind;
    node.place = place(mark);
    return node;
  }
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor != 0) throw InputError(place(mark), "an anchor (`&`)", kPlainYaml);
  }
  void begin(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
             YAML::anchor_t anchor) {
    refuse_anchor(mark, anchor);
    if (tag != "?" && tag != "!" && !tag.empty())
      throw InputError(place(mark), fmt::format("the tag `{}`", tag), kPlainYaml);
    if (open_.size() >= static_cast<std::size_t>(kYamlMaxDepth))
      throw InputError(place(mark), fmt::format("more than {} levels of nesting", kYamlMaxDepth),
                       "expected a flatter file");
    if (!open_.empty() && open_.back().key_next)
      throw InputError(place(mark), "a list or mapping as a key", "expected a word as key");
    open_.push_back({put(make(kind, mark)), kind == YamlNode::Kind::mapping});
  }
  YamlNode* put(YamlNode node) {
    if (open_.empty()) return &(root_ = std::move(node));
    Open& open = open_.back();
    if (open.node->kind == YamlNode::Kind::list)
      return &open.node->items.emplace_back(std::move(node));
    if (open.key_next) {
      if (node.kind != YamlNode::Kind::scalar)
        throw InputError(node.place, "an empty key", "expected a word as key");
      if (node.text == "<<" && !node.quoted)
        throw InputError(node.place, "a merge key (`<<`)", kPlainYaml);
      open.key_next = false;
      open.node->entries.push_back({std::move(node), YamlNode{}});
      return &open.node->entries.back().key;
    }
    open.key_next = true;
    return &(open.node->entries.back().value = std::move(node));
  }

  std::string file_;
  YamlNode root_;
  std::vector<Open> open_;
  std::size_t nodes_ = 0;
  int documents_ = 0;
};

// What yaml-cpp would accept in silence or report without a place.
void check_characters(std::string_view text, const std::string& file) {
  int line = 1;
  std::size_t line_start = 0;
  bool indentation = true;
  for (std::size_t i = 0; i < text.size();) {
    const SourcePlace place{file, line, static_cast<int>(i - line_start) + 1};
    const char c = text[i];
    if (c == '\t' && indentation)
      throw InputError(place, "a tab in the indentation", "expected spaces");
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f)
      throw InputError(place, fmt::format("the control character 0x{:02x}", c),
                       "expected text in UTF-8");
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) throw InputError(place, "a byte that is not UTF-8", "expected text in UTF-8");
    i += length;
    if (c == '\n') {
      ++line;
      line_start = i;
    }
    indentation = c == '\n' || (indentation && c == ' ');
  }
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  for (const auto& [name, value] : entries)
    if (name.text == key) return &value;
  return nullptr;
}

YamlNode* YamlNode::find(std::string_view key) {
  for (auto& [name, value] : entries)
    if (name.text == key) return &value;
  return nullptr;
}

YamlNode parse_yaml(std::string_view text, const std::string& name) {
  if (text.size() > kYamlMaxBytes)
    throw InputError({name, 1, 1}, fmt::format("{} bytes", text.size()),
                     fmt::format("expected at most {} bytes", kYamlMaxBytes));
  check_characters(text, name);
  TreeBuilder builder(name);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder))
      throw InputError({name, 1, 1}, "an empty file", "expected a mapping");
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& e) {
    throw InputError({name, e.mark.line + 1, e.mark.column + 1}, "not YAML: " + e.msg, kPlainYaml);
  }
  return builder.take();
}

std::string describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "nothing";
    case YamlNode::Kind::list:
      return "a list";
    case YamlNode::Kind::mapping:
      return "a mapping";
    case YamlNode::Kind::scalar:
      break;
  }
  constexpr std::size_t kLongest = 60;
  std::string shown;
  for (const char c : node.text.substr(0, kLongest)) shown += c == '\n' || c == '\r' ? ' ' : c;
  while (shown.size() == kLongest && !shown.empty() && (shown.back() & 0x80) != 0) shown.pop_back();
  return fmt::format("`{}{}`", shown, node.text.size() > kLongest ? "..." : "");
}

const YamlNode& node_at(const YamlNode& root, const std::vector<YamlStep>& path) {
  const YamlNode* node = &root;
  for (const YamlStep& step : path) {
    const YamlNode* next = nullptr;
    if (step.is_index)
      next = step.index < node->items.size() ? &node->items[step.index] : nullptr;
    else
      next = node->find(step.key);
    if (next == nullptr) break;
    node = next;
  }
  return *node;
}

}  // namespace kvlane
