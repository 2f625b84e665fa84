#include "experiments/report/number.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep {
namespace {

constexpr int kSignificantDigits = 3;
constexpr char kUnitGap[] = "\u00a0";  // a unit must not stand alone on the next line
constexpr double kSmallest = 1e-4;     // below this, zeros would fill the cell: 2.1e-07 instead

std::string WithSeparators(std::string digits) {
  for (size_t from_end = 3; from_end < digits.size(); from_end += 4) {
    digits.insert(digits.size() - from_end, ",");
  }
  return digits;
}

// Decimals that leave kSignificantDigits of `magnitude`, which is at least kSmallest. Rounds first,
// so that 99.96 becomes 100 and not 100.0.
int Decimals(double magnitude) {
  const double exponent = std::floor(std::log10(magnitude));
  const int decimals = kSignificantDigits - 1 - static_cast<int>(exponent);
  const double scale = std::pow(10.0, decimals);
  const bool carries = std::round(magnitude * scale) / scale >= std::pow(10.0, exponent + 1);
  return std::max(0, carries ? decimals - 1 : decimals);
}

}  // namespace

std::string FormatCount(double value) {
  if (!std::isfinite(value)) return kNotMeasured;
  const std::string digits = WithSeparators(absl::StrFormat("%.0f", std::abs(value)));
  return absl::StrCat(value < 0 && digits != "0" ? "−" : "", digits);
}

std::string FormatValue(double value) {
  if (!std::isfinite(value)) return kNotMeasured;
  if (value == 0) return "0";
  const double magnitude = std::abs(value);
  if (magnitude < kSmallest) return absl::StrFormat("%.1e", value);
  const int decimals = Decimals(magnitude);
  if (decimals == 0) return FormatCount(value);
  return absl::StrCat(value < 0 ? "−" : "", absl::StrFormat("%.*f", decimals, magnitude));
}

std::string FormatMilliseconds(double microseconds) { return FormatValue(microseconds / 1e3); }

std::string FormatBytes(double bytes) {
  if (!std::isfinite(bytes)) return kNotMeasured;
  const double magnitude = std::abs(bytes);
  // 999.5 of one unit would print as 1,000: the next one takes over there.
  if (magnitude < 999.5) return absl::StrCat(FormatCount(bytes), kUnitGap, "B");
  if (magnitude < 999.5e3) return absl::StrCat(FormatValue(bytes / 1e3), kUnitGap, "kB");
  if (magnitude < 999.5e6) return absl::StrCat(FormatValue(bytes / 1e6), kUnitGap, "MB");
  return absl::StrCat(FormatValue(bytes / 1e9), kUnitGap, "GB");
}

std::string FormatShare(double share) {
  if (!std::isfinite(share)) return kNotMeasured;
  return absl::StrCat(FormatValue(share * 100), kUnitGap, "%");
}

std::string FormatSignedShare(double share) {
  if (!std::isfinite(share)) return kNotMeasured;
  const std::string percent = absl::StrFormat("%.2f", std::abs(share) * 100);
  if (percent == "0.00") return absl::StrCat("0", kUnitGap, "%");
  return absl::StrCat(share < 0 ? "−" : "+", percent, kUnitGap, "%");
}

std::string FormatDuration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return kNotMeasured;
  if (seconds < 60) return absl::StrCat(FormatValue(seconds), kUnitGap, "s");
  const double whole = std::round(seconds);
  return absl::StrCat(FormatCount(std::floor(whole / 60)), kUnitGap, "min ",
                      FormatCount(std::fmod(whole, 60)), kUnitGap, "s");
}

}  // namespace lockstep
