// csv.h: cells of the CSV files beside a run (RFC 4180). Pure. Threads: any.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// Quoted where it has to be. Text that a spreadsheet would take for a formula (leading = + - @)
// gets a leading apostrophe.
std::string CsvText(std::string_view text);
// The shortest that reads back; empty where it is not finite.
std::string CsvNumber(double value);

}  // namespace lockstep
