// atomic_file.h: a result file is there whole or not at all, whatever kills us while writing.
// Written beside the target as <path>.tmp, flushed to disk, then renamed over it.
// Errors: as errno, naming the path; the old content then stays and nothing is left behind.
// Threads: one writer a path.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace lockstep {

absl::Status WriteFileAtomically(const std::string& path, std::string_view content);

}  // namespace lockstep
