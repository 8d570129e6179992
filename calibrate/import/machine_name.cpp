#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

#include "calibrate/import/import.h"

namespace kvlane::calibrate {
namespace {

// Without case and separators. The hardware files' names where there is one.
constexpr std::pair<const char*, const char*> kNames[] = {
    {"a100sxm", "A100-80-SXM"},
    {"a100", "A100-80-SXM"},
    {"a10080gb", "A100-80-SXM"},
    {"nvidiaa100gpu", "A100-80-SXM"},
    {"h100sxm", "H100-SXM"},
    {"h100", "H100-SXM"},
    {"h10080gb", "H100-SXM"},
    {"nvidiah100gpu", "H100-SXM"},
    {"h10080gbpcap", "H100-SXM-capped"},
    {"h200sxm", "H200-SXM"},
    {"h200", "H200-SXM"},
    {"l40s", "L40S"},
    {"l20", "L20"},
    {"l4", "L4"},
    {"a10", "A10"},
    {"nvidiaa10", "A10"},
    {"a100pcie40gb", "A100-40-PCIe"},
    {"nvidiaa100sxm440gbalibabaecs", "A100-40-SXM"},
    {"rtxpro6000server", "RTX-PRO-6000"},
    {"rtxpro6000", "RTX-PRO-6000"},
    {"rtx4090", "RTX-4090"},
    {"rtx3090", "RTX-3090"},
    {"h800", "H800"},
    {"a800", "A800-SXM"},
    {"a40", "A40"},
    {"a6000", "A6000"},
    {"nvidiagh200gpu", "GH200"},
    {"gh200", "GH200"},
};

}  // namespace

std::string machine_name(std::string_view gpu) {
  std::string simple;
  for (const char c : gpu) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0) simple += static_cast<char>(std::tolower(letter));
  }
  for (const auto& [word, name] : kNames) {
    if (simple == word) return name;
  }
  std::string plain(gpu);
  std::replace_if(
      plain.begin(), plain.end(), [](char c) { return c == ' ' || c == '_'; }, '-');
  return plain;
}

}  // namespace kvlane::calibrate
