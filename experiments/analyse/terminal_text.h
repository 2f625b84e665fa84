// terminal_text.h: text that no terminal takes for a command: plain ASCII, in lines of at most
// kTerminalColumns. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "experiments/analyse/terminal.h"

namespace lockstep {

inline constexpr auto kTerminalWidth = static_cast<size_t>(kTerminalColumns);

// Other characters become '?', one each; newline and tab stay.
std::string Ascii(std::string_view text);
// A path keeps its letters, whatever their alphabet; control characters become '?'.
std::string PathText(std::string text);
// "a long na~"
std::string Clip(const std::string& text, size_t width);
// Words in lines, each begun with `indent`; a longer word is cut.
std::string Wrap(const std::string& text, const std::string& indent);

}  // namespace lockstep
