#include "experiments/report/number.h"

#include <cmath>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiments/analyse/format.h"

namespace lockstep {
namespace {

constexpr int kDigits = 3;
constexpr int kShareDigits = 2;
constexpr char kUnitGap[] = "\u00a0";  // a unit must not stand alone on the next line

std::string WithSeparators(std::string digits) {
  for (size_t from_end = 3; from_end < digits.size(); from_end += 4) {
    digits.insert(digits.size() - from_end, ",");
  }
  return digits;
}

// A true minus sign; whole numbers from 1,000 on.
std::string Rounded(double value, int digits) {
  if (!std::isfinite(value)) return kNotMeasured;
  const double magnitude = std::abs(value);
  if (magnitude >= 999.5) return FormatCount(value);
  return absl::StrCat(value < 0 ? "−" : "", Significant(magnitude, digits));
}

}  // namespace

std::string FormatCount(double value) {
  if (!std::isfinite(value)) return kNotMeasured;
  const std::string digits = WithSeparators(absl::StrFormat("%.0f", std::abs(value)));
  return absl::StrCat(value < 0 && digits != "0" ? "−" : "", digits);
}

std::string FormatValue(double value) { return Rounded(value, kDigits); }

std::string FormatMilliseconds(double microseconds) { return FormatValue(microseconds / 1e3); }

std::vector<std::string> FormatStackMilliseconds(const std::vector<double>& parts_us) {
  double whole = 0;
  for (const double part : parts_us) whole += part / 1e3;
  // As many digits behind the point as FormatValue gives the whole.
  const std::string whole_text = FormatValue(whole);
  const size_t point = whole_text.find('.');
  const size_t digits = point == std::string::npos ? 0 : whole_text.size() - point - 1;
  const double unit = std::pow(10, static_cast<double>(digits));
  const auto text = [&](double value) {
    if (digits == 0 || !std::isfinite(value)) return FormatCount(value);
    return absl::StrFormat("%.*f", static_cast<int>(digits), value);
  };
  std::vector<std::string> texts;
  double end = 0;  // of the parts so far; differences of rounded ends add up, rounded parts don't
  for (const double part : parts_us) {
    const double begin = end;
    end += part / 1e3;
    texts.push_back(text((std::round(end * unit) - std::round(begin * unit)) / unit));
  }
  texts.push_back(text(std::round(whole * unit) / unit));
  return texts;
}

std::string FormatBytes(double bytes) {
  if (!std::isfinite(bytes)) return kNotMeasured;
  if (std::abs(bytes) < 999.5) return absl::StrCat(FormatCount(bytes), kUnitGap, "B");
  return absl::StrCat(FormatValue(bytes / 1e6), kUnitGap, "MB");
}

std::string FormatShare(double share) {
  if (!std::isfinite(share)) return kNotMeasured;
  return absl::StrCat(Rounded(share * 100, kShareDigits), kUnitGap, "%");
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
