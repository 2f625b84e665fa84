// terminal.h: what the terminal shows after a run: verdict, table of 8 columns, report, what to
// try next (after a failure: the logs instead). Lines are at most 80 characters of plain ASCII;
// anything else in a name or message becomes '?'. Only a path may be longer and hold other letters,
// so that it can be copied. Control characters never get through, so no escape sequence reaches the
// terminal. Pure.
#pragma once

#include <string>
#include <vector>

#include "proto/record.pb.h"

namespace lockstep {

inline constexpr int kTerminalColumns = 80;

struct TerminalOptions {
  std::string report_path;            // empty: no report was written
  std::string spec;                   // as the user would give it to `compare`; empty: quickstart
  std::vector<std::string> set = {};  // the texts of --set; what to try next keeps them
  std::string logs_path = {};         // of the run that failed, shown after a failure; empty: none
};
std::string RenderTerminal(const RunFile& run, const TerminalOptions& options);

}  // namespace lockstep
