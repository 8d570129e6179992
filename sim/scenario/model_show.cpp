#include "sim/scenario/model_show.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace kvlane {
namespace {

// Layers with the same KV, in the order in which each kind first appears.
struct Group {
  LayerSpec layer;
  std::int64_t count = 0;
};

bool same_kv(const LayerSpec& a, const LayerSpec& b) {
  return a.attention == b.attention && a.kv_heads == b.kv_heads && a.k_width == b.k_width &&
         a.v_width == b.v_width && a.window == b.window && a.state == b.state;
}

std::vector<Group> group_layers(const ModelSpec& model) {
  std::vector<Group> groups;
  for (const LayerSpec& layer : model.layers) {
    const auto at = std::find_if(groups.begin(), groups.end(),
                                 [&](const Group& g) { return same_kv(g.layer, layer); });
    if (at == groups.end()) {
      groups.push_back({layer, 1});
    } else {
      ++at->count;
    }
  }
  return groups;
}

std::string describe(const ModelSpec& model, const Group& group) {
  const LayerSpec& layer = group.layer;
  if (layer.attention == AttentionKind::linear) {
    return fmt::format("{} recurrent layers x {} B of state = {} B a request", group.count,
                       layer.state.count(), group.count * layer.state.count());
  }
  const double total = static_cast<double>(group.count) * kv_bytes_per_token(model, layer);
  const std::string width = layer.attention == AttentionKind::latent
                                ? fmt::format("latent {}", layer.k_width)
                                : fmt::format("(K {} x {} + V {} x {})", layer.kv_heads,
                                              layer.k_width, layer.kv_heads, layer.v_width);
  std::string kind = "full";
  if (layer.attention == AttentionKind::windowed) {
    kind = fmt::format("windowed ({} tokens)", layer.window);
  } else if (layer.attention == AttentionKind::latent) {
    kind = "latent";
  }
  return fmt::format("{} {} layers x {} x {:g} B = {:.10g} B a token", group.count, kind, width,
                     model.kv_element_bytes, total);
}

std::string size_line(const ModelSpec& model, std::int64_t tokens) {
  const std::int64_t bytes = kv_bytes(model, tokens, false).count();
  return fmt::format("  {:>9} tokens  {:>15} B  {}\n", tokens, bytes,
                     fmt::format("{:.6g} MiB", static_cast<double>(bytes) / (1 << 20)));
}

}  // namespace

std::string show_model_text(const ModelSpec& model, std::int64_t tokens) {
  const KvFootprint kv = kv_footprint(model, false);
  std::string text =
      fmt::format("{}: {} layers, hidden {}", model.name, model.layer_count(), model.hidden);
  if (model.missing.empty()) {
    text += fmt::format(", {:.4g}e9 parameters", static_cast<double>(parameter_count(model)) / 1e9);
  }
  text += fmt::format("\nsource: {}\nKV cache\n", model.source);
  for (const Group& group : group_layers(model)) text += "  " + describe(model, group) + "\n";
  text += fmt::format("  growing   {:.10g} B a token\n", kv.growing_per_token);
  text += fmt::format("  windowed  {:.10g} B a token{}\n", kv.windowed_per_token,
                      kv.window > 0 ? fmt::format(", at most {} tokens", kv.window) : "");
  text += fmt::format("  constant  {} B a request\n", kv.constant.count());
  if (model.max_position > 0) {
    text += fmt::format("longest prompt and output: {} tokens\n", model.max_position);
  } else {
    text += "longest prompt and output: the file does not say\n";
  }
  text += "bytes of a request\n";
  std::vector<std::int64_t> lengths{1024, 8192, 32768};
  if (tokens > 0) lengths.push_back(tokens);
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  for (const std::int64_t n : lengths) text += size_line(model, n);
  for (const std::string& sentence : model.assumptions) text += "assumed: " + sentence + "\n";
  for (const std::string& field : model.missing) {
    text += "missing: " + field + "; KV sizes hold, a scenario needs it\n";
  }
  return text;
}

std::string show_model_json(const ModelSpec& model, std::int64_t tokens) {
  using Json = nlohmann::ordered_json;
  const KvFootprint kv = kv_footprint(model, false);
  // Whole numbers stay whole.
  const auto number = [](double v) {
    const auto whole = static_cast<std::int64_t>(v);
    return static_cast<double>(whole) == v ? Json(whole) : Json(v);
  };
  Json result = {
      {"schema", "kvlane.show_model/1"},
      {"name", model.name},
      {"layers", model.layer_count()},
      {"kv_bytes_per_token_growing", number(kv.growing_per_token)},
      {"kv_bytes_per_token_windowed", number(kv.windowed_per_token)},
      {"kv_bytes_constant", kv.constant.count()},
      {"kv_window", kv.window > 0 ? Json(kv.window) : Json(nullptr)},
      {"max_prompt_tokens", model.max_position > 0 ? Json(model.max_position) : Json(nullptr)},
      {"tokens", tokens},
      {"kv_bytes", kv_bytes(model, tokens, false).count()},
      {"parameters", model.missing.empty() ? Json(parameter_count(model)) : Json(nullptr)},
      {"assumptions", model.assumptions},
      {"missing", model.missing},
      {"source", model.source}};
  return result.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace kvlane
