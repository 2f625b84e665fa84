// format.h: numbers and lists as plain ASCII text, for the verdict and the terminal. Pure.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// `digits` significant digits, whole numbers in full: 0.0512, 12.3, 1185; beyond 1e-4..1e9
// as 1.2e-05.
std::string Significant(double value, int digits);
std::string StepNumber(double step);                  // "41"; run files hold counts as doubles
std::string Megabytes(double bytes);                  // "0.524 MB"; 1 MB = 10^6 bytes
std::string Percent(double share);                    // "12 %", two digits
std::string Counted(int n, const std::string& noun);  // "1 block", "3 blocks"
std::string JoinNames(const std::vector<std::string>& names);  // "a", "a and b", "a, b and c"

}  // namespace lockstep
