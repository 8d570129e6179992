#include "sim/scenario/json_places.h"

#include <nlohmann/json.hpp>
#include <vector>

namespace kvlane {
namespace {

class Scanner {
 public:
  Scanner(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  JsonPlaces run() {
    while (at_ < text_.size()) {
      switch (text_[at_]) {
        case '{':
        case '[':
          open(text_[at_] == '[');
          break;
        case '}':
        case ']':
          open_.pop_back();
          break;
        case ',':
          if (!open_.empty() && open_.back().list) ++open_.back().index;
          expects_key_ = !open_.empty() && !open_.back().list;
          fresh_ = true;
          break;
        case '"':
          string();
          continue;
        case ' ':
        case '\t':
        case '\r':
        case '\n':
        case ':':
          break;
        default:
          item();
          break;
      }
      step();
    }
    return std::move(places_);
  }

 private:
  struct Open {
    bool list;
    std::string path;
    std::size_t index = 0;  // of a list
    std::string key;        // of an object: the last one
  };

  // What the value that starts here is called.
  std::string path() const {
    if (open_.empty()) return "";
    const Open& in = open_.back();
    if (in.list) return fmt::format("{}[{}]", in.path, in.index);
    return in.path.empty() ? in.key : in.path + '.' + in.key;
  }
  SourcePlace place() const { return {file_, line_, static_cast<int>(at_ - line_start_) + 1}; }
  void step() {
    if (text_[at_++] != '\n') return;
    ++line_;
    line_start_ = at_;
  }
  void item() {
    if (!open_.empty() && open_.back().list && std::exchange(fresh_, false))
      places_.emplace(path(), place());
  }
  void open(bool list) {
    item();
    open_.push_back({list, path(), 0, {}});
    expects_key_ = !list;
    fresh_ = true;
  }
  void string() {
    const std::size_t start = at_;
    const SourcePlace here = place();
    if (!expects_key_) item();
    step();
    while (text_[at_] != '"') {
      if (text_[at_] == '\\') step();
      step();
    }
    step();
    if (!std::exchange(expects_key_, false)) return;
    open_.back().key = nlohmann::json::parse(text_.substr(start, at_ - start)).get<std::string>();
    if (!places_.emplace(path(), here).second) {
      throw InputError(here, fmt::format("the key `{}` a second time", open_.back().key),
                       "expected every key once");
    }
  }

  std::string_view text_;
  const std::string& file_;
  JsonPlaces places_;
  std::vector<Open> open_;
  std::size_t at_ = 0, line_start_ = 0;
  int line_ = 1;
  bool expects_key_ = false;
  bool fresh_ = true;  // the next value of a list has no place yet
};

}  // namespace

JsonPlaces json_places(std::string_view text, const std::string& file) {
  return Scanner(text, file).run();
}

}  // namespace kvlane
