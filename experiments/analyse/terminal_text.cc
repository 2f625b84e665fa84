#include "experiments/analyse/terminal_text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lockstep {
namespace {

bool IsControl(unsigned char byte) { return byte < 0x20 || byte == 0x7F; }

}  // namespace

std::string PathText(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return IsControl(static_cast<unsigned char>(c)); },
      '?');
  return text;
}

std::string Ascii(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0) == 0x80) continue;  // one '?' a character, not one a byte
    const bool space = c == '\n' || c == '\t';
    result += byte >= 0x80 || (IsControl(byte) && !space) ? '?' : c;
  }
  return result;
}

std::string Clip(const std::string& text, size_t width) {
  if (text.size() <= width) return text;
  return absl::StrCat(text.substr(0, width - 1), "~");
}

std::string Wrap(const std::string& text, const std::string& indent) {
  std::string result;
  std::string line;
  const std::vector<std::string> words =
      absl::StrSplit(Ascii(text), absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
  for (std::string word : words) {
    while (!word.empty()) {
      const size_t used = line.empty() ? indent.size() : line.size() + 1;
      if (used + word.size() <= kTerminalWidth) {
        absl::StrAppend(&line, line.empty() ? indent : " ", word);
        break;
      }
      if (!line.empty()) {
        absl::StrAppend(&result, line, "\n");
        line.clear();
        continue;
      }
      const size_t part = kTerminalWidth - indent.size();
      absl::StrAppend(&result, indent, word.substr(0, part), "\n");
      word.erase(0, part);
    }
  }
  if (!line.empty()) absl::StrAppend(&result, line, "\n");
  return result;
}

}  // namespace lockstep
