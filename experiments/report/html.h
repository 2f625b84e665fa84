// html.h: text into HTML without surprises.
// Errors: FillSlots returns Internal when page and slots do not fit together (a stale template).
// Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lockstep {

// For element content and quoted attributes. Control characters, which HTML forbids, become U+FFFD.
std::string Escape(std::string_view text);

// JSON that may stand inside <script type="application/json">: every '<' is written \u003c, so
// neither
// </script> nor <!-- can occur.
std::string JsonForScript(std::string_view json);

// Replaces every @@NAME@@ of `page` (capitals only) by its text. One pass: what was inserted is
// never looked at again, so a slot's name inside data stays as it is. Every slot must be used.
absl::StatusOr<std::string> FillSlots(std::string_view page,
                                      const std::map<std::string, std::string>& slots);

}  // namespace lockstep
