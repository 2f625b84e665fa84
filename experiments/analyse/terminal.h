// terminal.h: what the terminal shows after a run: verdict, table of 8 columns, report, what to
// try next. Lines are at most 80 characters of plain ASCII; anything else in a name or message
// becomes '?'. Only a path may be longer and hold other letters, so that it can be copied.
// Control characters never get through, so no escape sequence reaches the terminal. Pure.
#pragma once

#include <string>

#include "proto/record.pb.h"

namespace lockstep {

inline constexpr int kTerminalColumns = 80;

struct TerminalOptions {
  std::string report_path;  // empty: no report was written
  std::string spec;         // as the user would give it to `compare`; empty: quickstart
};
std::string RenderTerminal(const RunFile& run, const TerminalOptions& options);

}  // namespace lockstep
