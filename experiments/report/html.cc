#include "experiments/report/html.h"

#include <cstddef>
#include <set>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

constexpr std::string_view kFence = "@@";

bool IsSlotName(std::string_view name) {
  if (name.empty()) return false;
  return name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == std::string_view::npos;
}

}  // namespace

std::string Escape(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '\n':
      case '\t':
        out += c;
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          out += "\xef\xbf\xbd";
        } else {
          out += c;
        }
    }
  }
  return out;
}

std::string JsonForScript(std::string_view json) {
  std::string out;
  out.reserve(json.size() + json.size() / 16);
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

absl::StatusOr<std::string> FillSlots(std::string_view page,
                                      const std::map<std::string, std::string>& slots) {
  std::string out;
  std::set<std::string> used;
  size_t position = 0;
  while (true) {
    const size_t open = page.find(kFence, position);
    if (open == std::string_view::npos) break;
    const size_t close = page.find(kFence, open + kFence.size());
    if (close == std::string_view::npos) break;
    const std::string name(page.substr(open + kFence.size(), close - open - kFence.size()));
    if (!IsSlotName(name)) {  // not a slot: look again from the second fence on
      out += page.substr(position, close - position);
      position = close;
      continue;
    }
    const auto slot = slots.find(name);
    if (slot == slots.end()) {
      return absl::InternalError(absl::StrCat("report template: unknown slot @@", name, "@@"));
    }
    out += page.substr(position, open - position);
    out += slot->second;
    used.insert(name);
    position = close + kFence.size();
  }
  out += page.substr(position);
  for (const auto& [name, text] : slots) {
    if (!used.contains(name)) {
      return absl::InternalError(absl::StrCat("report template: lacks slot @@", name,
                                              "@@; rebuild it (experiments/report/web)"));
    }
  }
  return out;
}

}  // namespace lockstep
