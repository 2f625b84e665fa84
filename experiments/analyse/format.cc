#include "experiments/analyse/format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace lockstep {

std::string Significant(double value, int digits) {
  if (value == 0) return "0";
  char buffer[64];
  // The exponent after rounding, so that 9.996 with three digits is 10.0 and not 10.00.
  std::snprintf(buffer, sizeof(buffer), "%.*e", digits - 1, value);
  const double rounded = std::strtod(buffer, nullptr);
  const int exponent = static_cast<int>(std::floor(std::log10(std::fabs(rounded))));
  if (exponent < -4 || exponent >= 9) return buffer;
  std::snprintf(buffer, sizeof(buffer), "%.*f", std::max(0, digits - 1 - exponent), value);
  return buffer;
}

std::string StepNumber(double step) { return absl::StrCat(std::llround(step)); }

std::string Megabytes(double bytes) { return absl::StrCat(Significant(bytes / 1e6, 3), " MB"); }

std::string Percent(double share) { return absl::StrCat(Significant(share * 100, 2), " %"); }

std::string Counted(int n, const std::string& noun) {
  return absl::StrCat(n, " ", noun, n == 1 ? "" : "s");
}

std::string JoinNames(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace lockstep
