#pragma once
// One declarative table a mapping: key, type, need, range, description, bound to a member of a
// struct. The reader and `kvlane schema` (JSON Schema 2020-12) are both made from it, so that they
// cannot differ.
//
//   using enum Need;
//   const Mapping<Wire>& wire_mapping() {
//     static const Mapping<Wire> table = Mapping<Wire>("wire", "A cable.")
//         .text("name", &Wire::name, required, "Unique name.")
//         .quantity("rate", &Wire::rate, required, "Line rate.")               // Bandwidth
//         .quantity("latency", &Wire::latency, optional, "One way. Default 0 us.")  // Duration
//         .quantity("peak", &Wire::flops, UnitFamily::compute, required, "…")  // double
//         .share("efficiency", &Wire::efficiency, optional, "…", {0, 1})
//         .integer("count", &Wire::count, optional, "…", {1, 1000})
//         .words("mode", &Wire::mode, {{"fast", Mode::fast}}, optional, "…")
//         .list("ends", &Wire::ends, end_mapping(), required, "…", {2, 2});
//     return table;
//   }
//   Wire wire;
//   wire_mapping().read(parse_yaml(text, "file.yaml"), wire);   // throws InputError
//
// A member is anything std::invoke takes to a reference: a member pointer, or a lambda
// `[](Wire& w) -> int& {…}`; std::optional<X> members work like X. An optional key that is absent
// leaves the member alone: its default is the struct's, and the description states it.
// With sources(…), every number of the table may be (or must be) written as
// {value: 25 Gbps, source: table, from: "text"}; source is one of the words of Source.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/base/units.h"
#include "sim/gpu/gpu_spec.h"
#include "sim/scenario/quantity.h"
#include "sim/scenario/yaml_tree.h"

namespace kvlane {

class MappingBase;

enum class Need : std::uint8_t { required, optional };

struct Range {  // inclusive; `above` excludes the low end, `or_zero` allows 0 below it
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool above = false;
  bool or_zero = false;
};
inline constexpr Range kPositive{0, std::numeric_limits<double>::infinity(), true};
inline constexpr Range kNotNegative{0, std::numeric_limits<double>::infinity(), false};

// What hardware can be, in base units: beyond these, times leave the clock's 106 days, or a value
// was meant for another key.
inline constexpr Range kLinkRate{1e3, 1e15};    // bit/s
inline constexpr Range kMemoryRate{1e6, 1e15};  // byte/s; as bit/s in a Bandwidth:
inline constexpr Range kMemoryBits{8e6, 8e15};
inline constexpr Range kComputeRate{1e9, 1e18};  // operations/s
inline constexpr Range kShortTime{0, 1};         // s: a kernel, a message
inline constexpr Range kHostTime{0, 3600};
inline constexpr Range kMemorySize{1, 1e16};  // B
inline constexpr Range kPrice{0, 1e6, true};  // USD/h
inline constexpr Range kLeastShare{0.001, 1};

// The text of a scalar and where it stands: names and paths that are looked up later.
struct PlacedText {
  std::string text;
  SourcePlace place;
};

struct ValueType {
  enum class Kind : std::uint8_t {
    text,
    boolean,
    integer,
    number,
    quantity,
    word,
    mapping,
    list,
    one_of  // of `choices`, told apart by the kind of node
  };
  ValueType() = default;
  ValueType(Kind k) : kind(k) {}  // NOLINT: a kind is the simplest type
  ValueType(UnitFamily u, bool whole, Range r)
      : kind(Kind::quantity), unit(u), integral(whole), range(r) {}
  Kind kind = Kind::text;
  UnitFamily unit = UnitFamily::time;    // quantity
  bool integral = false;                 // quantity held in a whole number
  Range range;                           // integer, number, quantity; list: its length
  std::vector<std::string> words;        // word
  const MappingBase* mapping = nullptr;  // mapping; lives as long as the program
  std::vector<ValueType> choices;        // one_of; list: the element
  std::string default_value;             // as text, for the JSON Schema; may be empty
};

struct SourceNote {  // of a value written as {value, source, from}
  Source source = Source::assumed;
  std::string from;
};

struct Field {
  std::string key;
  std::string description;
  Need need = Need::required;
  ValueType type;
  bool takes_source = false;
  std::function<void(void*, const YamlNode&)> read;
};

enum class SourceRule : std::uint8_t { none, optional, required };

class MappingBase {
 public:
  MappingBase(std::string name, std::string description)
      : name_(std::move(name)), description_(std::move(description)) {}
  const std::string& name() const { return name_; }
  const std::string& description() const { return description_; }
  const std::vector<Field>& fields() const { return fields_; }
  SourceRule source_rule() const { return source_rule_; }

 protected:
  void read_into(const YamlNode& node, void* object) const;

  std::string name_;
  std::string description_;
  std::vector<Field> fields_;
  SourceRule source_rule_ = SourceRule::none;
  std::function<void(void*, const std::string& key, const SourceNote&)> note_source_;
};

// Checked scalars; ranges are in base units (seconds, bytes, bits a second).
std::string read_text(const YamlNode& node);
bool read_boolean(const YamlNode& node);
std::int64_t read_integer(const YamlNode& node, const Range& range);
double read_number(const YamlNode& node, const Range& range);
double read_quantity(const YamlNode& node, UnitFamily unit, const Range& range);
std::int64_t read_integer_quantity(const YamlNode& node, UnitFamily unit, const Range& range);
std::size_t read_word(const YamlNode& node, const std::vector<std::string>& words);
void check_list(const YamlNode& node, const Range& length);
// " (nearest: `name`)" or "" where nothing is near: for "unknown ..." messages.
std::string nearest_hint(const std::string& word, const std::vector<std::string>& words);
std::string join_words(const std::vector<std::string>& words);

// JSON Schema 2020-12 of a table with everything below it, as text.
std::string json_schema_text(const MappingBase& mapping, const std::string& title);

template <class T>
class Mapping : public MappingBase {
  template <class X>
  struct Bare {
    using type = X;
  };
  template <class X>
  struct Bare<std::optional<X>> {
    using type = X;
  };
  template <class A>
  using Member = std::remove_cvref_t<std::invoke_result_t<A, T&>>;
  template <class A>
  using Value = typename Bare<Member<A>>::type;

 public:
  using MappingBase::MappingBase;

  // Reads a mapping node into `object`: every key known, once, of the right type; required keys
  // present.
  void read(const YamlNode& node, T& object) const { read_into(node, &object); }

  // The table of an inline mapping that changes a preset, {base: NAME, key: value, ...}: all keys
  // are optional and sources may be left out. `base` is looked up by the caller, before the rest.
  Mapping as_changes(const std::string& name, const std::string& description) const {
    Mapping table = *this;
    table.name_ = name;
    table.description_ = description;
    if (source_rule_ == SourceRule::required) table.source_rule_ = SourceRule::optional;
    for (Field& field : table.fields_) field.need = Need::optional;
    table.custom("base", ValueType(), Need::required, "The preset, or the path of a file.",
                 [](T&, const YamlNode& n) { read_text(n); });
    return table;
  }

  template <class A>
  Mapping& text(std::string key, A member, Need need, std::string description) {
    return add(std::move(key), member, need, std::move(description), {},
               [](const YamlNode& n, auto& to) {
                 if constexpr (std::is_same_v<std::remove_reference_t<decltype(to)>, PlacedText>)
                   to = PlacedText{read_text(n), n.place};
                 else
                   to = read_text(n);
               });
  }
  template <class A>
  Mapping& boolean(std::string key, A member, Need need, std::string description) {
    return add(std::move(key), member, need, std::move(description), ValueType::Kind::boolean,
               [](const YamlNode& n, auto& to) { to = read_boolean(n); });
  }
  // A count without a unit, into any integer type.
  template <class A>
  Mapping& integer(std::string key, A member, Need need, std::string description,
                   Range range = kNotNegative) {
    ValueType type{ValueType::Kind::integer};
    type.range = range;
    return add(
        std::move(key), member, need, std::move(description), type,
        [range](const YamlNode& n, auto& to) {
          using X = std::remove_reference_t<decltype(to)>;
          Range fits = range;
          if constexpr (sizeof(X) < 8) {
            fits.low = std::max(fits.low, static_cast<double>(std::numeric_limits<X>::min()));
            fits.high = std::min(fits.high, static_cast<double>(std::numeric_limits<X>::max()));
          }
          to = static_cast<X>(read_integer(n, fits));
        },
        true);
  }
  // A number without a dimension (exponents, correlations). Ratios of things are shares.
  template <class A>
  Mapping& number(std::string key, A member, Need need, std::string description, Range range = {}) {
    ValueType type{ValueType::Kind::number};
    type.range = range;
    return add(
        std::move(key), member, need, std::move(description), type,
        [range](const YamlNode& n, auto& to) { to = read_number(n, range); }, true);
  }
  // `20 %` -> 0.20; the range is in shares (0..1).
  template <class A>
  Mapping& share(std::string key, A member, Need need, std::string description,
                 Range range = {0, 1}) {
    return quantity(std::move(key), member, UnitFamily::share, need, std::move(description), range);
  }
  // Duration, Bytes and Bandwidth members name their family themselves.
  template <class A>
  Mapping& quantity(std::string key, A member, Need need, std::string description,
                    Range range = kNotNegative) {
    using X = Value<A>;
    static_assert(
        std::is_same_v<X, Duration> || std::is_same_v<X, Bytes> || std::is_same_v<X, Bandwidth>,
        "a double needs its unit family");
    constexpr UnitFamily kUnit = std::is_same_v<X, Duration> ? UnitFamily::time
                                 : std::is_same_v<X, Bytes>  ? UnitFamily::size
                                                             : UnitFamily::rate;
    ValueType type(kUnit, true, range);
    return add(
        std::move(key), member, need, std::move(description), type,
        [range](const YamlNode& n, auto& to) {
          const std::int64_t value = read_integer_quantity(n, kUnit, range);
          if constexpr (std::is_same_v<X, Bandwidth>)
            to = Bandwidth::bits_per_sec(value);
          else
            to = X(value);
        },
        true);
  }
  // double members: seconds, bytes, bytes/s, operations/s, messages/s, USD/h.
  template <class A>
  Mapping& quantity(std::string key, A member, UnitFamily unit, Need need, std::string description,
                    Range range = kNotNegative) {
    static_assert(std::is_same_v<Value<A>, double>);
    ValueType type(unit, false, range);
    return add(
        std::move(key), member, need, std::move(description), type,
        [unit, range](const YamlNode& n, auto& to) { to = read_quantity(n, unit, range); }, true);
  }
  template <class A>
  Mapping& words(std::string key, A member, std::vector<std::pair<std::string, Value<A>>> choices,
                 Need need, std::string description) {
    ValueType type{ValueType::Kind::word};
    for (const auto& choice : choices) type.words.push_back(choice.first);
    return add(std::move(key), member, need, std::move(description), type,
               [choices, names = type.words](const YamlNode& n, auto& to) {
                 to = choices[read_word(n, names)].second;
               });
  }
  // A nested mapping into a struct of its own.
  template <class A>
  Mapping& mapping(std::string key, A member, const Mapping<Value<A>>& table, Need need,
                   std::string description) {
    ValueType type{ValueType::Kind::mapping};
    type.mapping = &table;
    return add(std::move(key), member, need, std::move(description), type,
               [&table](const YamlNode& n, auto& to) { table.read(n, to); });
  }
  // A nested mapping whose keys belong to this same struct. `table` lives as long as the program.
  Mapping& group(std::string key, const Mapping<T>& table, Need need, std::string description) {
    ValueType type{ValueType::Kind::mapping};
    type.mapping = &table;
    fields_.push_back(
        {std::move(key), std::move(description), need, type, false,
         [&table](void* o, const YamlNode& n) { table.read(n, *static_cast<T*>(o)); }});
    return *this;
  }
  // std::vector<X> of mappings. `length`: how many items are allowed.
  template <class A, class X>
  Mapping& list(std::string key, A member, const Mapping<X>& table, Need need,
                std::string description, Range length = {1, 10'000}) {
    ValueType element{ValueType::Kind::mapping};
    element.mapping = &table;
    return list_of(
        std::move(key), member, element, need, std::move(description),
        [&table](const YamlNode& n) {
          X x{};
          table.read(n, x);
          return x;
        },
        length);
  }
  // std::vector of scalars: `element` describes one, `read_item` reads one (use the read_*
  // functions).
  template <class A, class F>
  Mapping& list_of(std::string key, A member, ValueType element, Need need, std::string description,
                   F read_item, Range length = {1, 100'000}) {
    ValueType type{ValueType::Kind::list};
    type.range = length;
    type.choices = {std::move(element)};
    return add(std::move(key), member, need, std::move(description), type,
               [read_item, length](const YamlNode& n, auto& to) {
                 check_list(n, length);
                 to.clear();
                 for (const YamlNode& item : n.items) to.push_back(read_item(item));
               });
  }
  // Anything else: `type` says what it is for the JSON Schema, `read` takes (T&, node).
  Mapping& custom(std::string key, ValueType type, Need need, std::string description,
                  std::function<void(T&, const YamlNode&)> read) {
    fields_.push_back(
        {std::move(key), std::move(description), need, std::move(type), false,
         [read = std::move(read)](void* o, const YamlNode& n) { read(*static_cast<T*>(o), n); }});
    return *this;
  }
  // The default of the key added last, as it would stand in a file (`2 us`, `true`, `profile`).
  Mapping& default_value(const std::string& text) {
    fields_.back().type.default_value = text;
    return *this;
  }
  // Numbers of this table carry {value, source, from}; call before the fields.
  Mapping& sources(SourceRule rule,
                   std::function<void(T&, const std::string& key, const SourceNote&)> note) {
    source_rule_ = rule;
    note_source_ = [note = std::move(note)](void* o, const std::string& key, const SourceNote& s) {
      note(*static_cast<T*>(o), key, s);
    };
    return *this;
  }

 private:
  template <class A, class F>
  Mapping& add(std::string key, A member, Need need, std::string description, ValueType type,
               F assign, bool takes_source = false) {
    fields_.push_back({std::move(key), std::move(description), need, std::move(type), takes_source,
                       [member, assign](void* o, const YamlNode& n) {
                         Value<A> value{};
                         auto& target = std::invoke(member, *static_cast<T*>(o));
                         if constexpr (std::is_same_v<Member<A>, Value<A>>) value = target;
                         assign(n, value);
                         target = std::move(value);
                       }});
    return *this;
  }
};

}  // namespace kvlane
