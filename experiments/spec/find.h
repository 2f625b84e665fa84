// find.h: the text of a spec, by the name of a ready-made one or by path.
// Ready-made specs (experiments/specs/) are part of the program: no files are needed to run them.
// Errors: InvalidArgument: no such name or file (lists the ready-made ones), too large, unreadable,
// not a text file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep {

inline constexpr int64_t kSpecBytesMax = int64_t{1} << 20;

struct SpecText {
  std::string display_name;  // as error messages call it: "quickstart.textproto", or the path
  std::string text;
  std::string note = {};  // what the user may not expect of this choice; "" when nothing
};

// A ready-made spec goes before a file of the same name; `note` then says so.
absl::StatusOr<SpecText> FindSpec(const std::string& name_or_path);

// Names of the ready-made specs, sorted.
std::vector<std::string> KnownSpecs();

}  // namespace lockstep
