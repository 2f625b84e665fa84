// terminal_next.h: three commands worth trying after a run. They keep what the user has set, differ
// from what was run, and can be pasted. Pure.
#pragma once

#include <string>

#include "experiments/analyse/terminal.h"
#include "proto/record.pb.h"

namespace lockstep {

// "Try next:\n  ./lockstep compare ..."
std::string TryNext(const RunFile& run, const TerminalOptions& options);

}  // namespace lockstep
