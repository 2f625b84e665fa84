// terminal_table.h: the variants as a table of 8 columns that fits the terminal whatever the
// numbers are, and the notes below it: formulas, which variants ended with the same bits, how stale
// asynchronous updates were. Pure.
#pragma once

#include <string>
#include <vector>

#include "proto/record.pb.h"

namespace lockstep {

// Rows in the order given.
std::string TerminalTable(const std::vector<const VariantResult*>& variants);
std::string TerminalNotes(const std::vector<const VariantResult*>& variants);

}  // namespace lockstep
