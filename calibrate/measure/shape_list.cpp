#include "calibrate/measure/shape_list.h"

#include <charconv>
#include <cstdint>
#include <sstream>
#include <stdexcept>

namespace kvlane::calibrate {
namespace {

constexpr std::int64_t kLargest = 1'000'000'000'000'000;  // as in sample files

std::int64_t size_of(const std::string& word, const std::string& place) {
  std::int64_t size = 0;
  const auto read = std::from_chars(word.data(), word.data() + word.size(), size);
  if (read.ec != std::errc() || read.ptr != word.data() + word.size() || size < 0 ||
      size > kLargest) {
    throw std::runtime_error(place + "'" + word + "' is no size; expected 0 to 1e15");
  }
  return size;
}

// What stands between '|', without space around it; at least one.
std::vector<std::string> parts_of(const std::string& line) {
  std::vector<std::string> parts;
  std::istringstream stream(line);
  for (std::string part; std::getline(stream, part, '|');) {
    const std::size_t first = part.find_first_not_of(" \t\r");
    const std::size_t last = part.find_last_not_of(" \t\r");
    parts.push_back(first == std::string::npos ? "" : part.substr(first, last + 1 - first));
  }
  if (parts.empty()) parts.emplace_back();
  return parts;
}

}  // namespace

std::string shapes_text(const std::vector<Sample>& shapes) {
  std::string text;
  for (const Sample& shape : shapes) {
    const std::string words = shape.variant + shape.set_aside;
    if (shape.dtype.empty() || words.find_first_of("|#\n") != std::string::npos) {
      throw std::logic_error("a shape of " + shape.kernel + " that no line can say: " + words);
    }
    text += shape.kernel + ' ' + shape.dtype;
    for (const std::int64_t size : shape.shape) text += ' ' + std::to_string(size);
    if (!words.empty()) text += " | " + shape.variant;
    if (!shape.set_aside.empty()) text += " | " + shape.set_aside;
    text += '\n';
  }
  return text;
}

std::vector<Sample> parse_shapes(std::string_view text, const std::string& name) {
  std::vector<Sample> shapes;
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string place = name + ':' + std::to_string(++number) + ": ";
    const std::vector<std::string> parts = parts_of(line.substr(0, line.find('#')));
    std::istringstream words(parts[0]);
    Sample shape;
    if (!(words >> shape.kernel)) continue;
    if (parts.size() > 3) throw std::runtime_error(place + "more than three parts");
    if (parts.size() > 1) shape.variant = parts[1];
    if (parts.size() > 2) shape.set_aside = parts[2];
    const std::vector<std::string>& dimensions = sample_dimensions(shape.kernel);
    if (dimensions.empty()) {
      throw std::runtime_error(place + "unknown kernel '" + shape.kernel + "'");
    }
    words >> shape.dtype;
    for (std::string word; words >> word;) shape.shape.push_back(size_of(word, place));
    if (shape.shape.size() != dimensions.size()) {
      throw std::runtime_error(place + std::to_string(shape.shape.size()) + " sizes; expected " +
                               std::to_string(dimensions.size()) + " of " + shape.kernel);
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

}  // namespace kvlane::calibrate
