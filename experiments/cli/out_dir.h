// out_dir.h: the folder of a comparison: chosen and checked before anything starts.
// Errors: AlreadyExists (it holds something: nothing is overwritten), InvalidArgument (it, or
// something above it, is a file), PermissionDenied (nothing can be written there), as errno
// otherwise.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep {

// Can results go to `requested`? Creates nothing. Empty: below the current folder.
absl::Status CheckOutDir(const std::string& requested);

// Creates and returns it; it is empty then. `requested` empty: runs/<UTC time>-<name> below the
// current folder, with -2, -3, ... where another comparison of the same second has it.
absl::StatusOr<std::string> MakeOutDir(const std::string& requested, const std::string& name,
                                       const std::string& started_at);

}  // namespace lockstep
