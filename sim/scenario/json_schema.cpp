// JSON Schema 2020-12 of the tables that the reader uses. Nested tables become $defs, by name.

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/scenario/schema.h"

namespace kvlane {

namespace {

using Json = nlohmann::ordered_json;

class SchemaWriter {
 public:
  explicit SchemaWriter(Json& definitions) : definitions_(definitions) {}

  Json mapping(const MappingBase& table) {
    Json properties = Json::object();
    Json needed = Json::array();
    for (const Field& field : table.fields()) {
      Json value = type(field.type);
      if (field.takes_source && table.source_rule() != SourceRule::none) {
        const Json sourced = with_source(value);
        value = table.source_rule() == SourceRule::required
                    ? sourced
                    : Json{{"anyOf", Json::array({value, sourced})}};
      }
      value["description"] = field.description;
      if (!field.type.default_value.empty()) value["default"] = field.type.default_value;
      properties[field.key] = std::move(value);
      if (field.need == Need::required) needed.push_back(field.key);
    }
    Json result = {{"type", "object"},
                   {"description", table.description()},
                   {"properties", std::move(properties)},
                   {"additionalProperties", false}};
    if (!needed.empty()) result["required"] = std::move(needed);
    return result;
  }

 private:
  Json with_source(const Json& value) {
    return {{"type", "object"},
            {"properties",
             {{"value", value},
              {"source", {{"enum", {"measured", "table", "extrapolated", "datasheet", "assumed"}}}},
              {"from", {{"type", "string"}}}}},
            {"required", {"value", "source", "from"}},
            {"additionalProperties", false}};
  }

  Json type(const ValueType& t) {
    switch (t.kind) {
      case ValueType::Kind::text:
        return {{"type", "string"}, {"minLength", 1}};
      case ValueType::Kind::boolean:
        return {{"type", "boolean"}};
      case ValueType::Kind::integer:
        return bounded({{"type", "integer"}}, t.range);
      case ValueType::Kind::number:
        return bounded({{"type", "number"}}, t.range);
      case ValueType::Kind::quantity:
        return {{"type", "string"}, {"pattern", pattern_of(t.unit)}};
      case ValueType::Kind::word:
        return {{"enum", t.words}};
      case ValueType::Kind::mapping:
        return reference(*t.mapping);
      case ValueType::Kind::list: {
        Json list = {{"type", "array"}, {"items", type(t.choices.front())}};
        if (std::isfinite(t.range.low) && t.range.low > 0)
          list["minItems"] = static_cast<std::int64_t>(t.range.low);
        if (std::isfinite(t.range.high)) list["maxItems"] = static_cast<std::int64_t>(t.range.high);
        return list;
      }
      case ValueType::Kind::one_of: {
        Json choices = Json::array();
        for (const ValueType& choice : t.choices) choices.push_back(type(choice));
        return {{"anyOf", std::move(choices)}};
      }
    }
    return Json::object();
  }

  static Json bounded(Json schema, const Range& range) {
    if (std::isfinite(range.low)) schema[range.above ? "exclusiveMinimum" : "minimum"] = range.low;
    if (std::isfinite(range.high)) schema["maximum"] = range.high;
    return schema;
  }

  Json reference(const MappingBase& table) {
    std::string name = table.name();
    for (char& c : name)
      if (c == ' ') c = '_';
    if (written_.insert(name).second) {
      definitions_[name] = Json::object();  // holds the position while nested tables are written
      Json definition = mapping(table);
      definitions_[name] = std::move(definition);
    }
    return {{"$ref", "#/$defs/" + name}};
  }

  Json& definitions_;
  std::set<std::string> written_;
};

}  // namespace

std::string json_schema_text(const MappingBase& mapping, const std::string& title) {
  Json definitions = Json::object();
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", title}};
  schema.update(SchemaWriter(definitions).mapping(mapping));
  if (!definitions.empty()) schema["$defs"] = std::move(definitions);
  return schema.dump(2) + "\n";
}

}  // namespace kvlane
