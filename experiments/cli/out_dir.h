// out_dir.h: the folder of a comparison: chosen and checked before anything starts.
// Errors: AlreadyExists (it holds something), InvalidArgument (it is a file), as errno otherwise.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace lockstep {

// `requested` empty: runs/<UTC time>-<name> below the current folder. Creates it; it is empty then.
absl::StatusOr<std::string> MakeOutDir(const std::string& requested, const std::string& name,
                                       const std::string& started_at);

}  // namespace lockstep
