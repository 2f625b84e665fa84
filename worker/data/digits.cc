#include "worker/data/digits.h"

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "worker/data/gzip.h"

// The ends of digits.csv.gz in this program's memory, from digits.S.in.
extern "C" const char lockstep_digits_begin[];
extern "C" const char lockstep_digits_end[];

namespace lockstep {
namespace {

constexpr int kPixels = 64;
constexpr int kDarkest = 16;
constexpr int kClasses = 10;
constexpr int64_t kTextBytesMax = 1 << 20;  // 264,712 are expected

// One field, 0..max.
absl::StatusOr<int> ParseField(absl::string_view field, int max) {
  int value = 0;
  if (!absl::SimpleAtoi(field, &value) || value < 0 || value > max) {
    return absl::DataLossError(absl::StrCat("'", field, "' is not a whole number from 0 to ", max));
  }
  return value;
}

absl::Status ParseLine(absl::string_view line, Dataset* dataset) {
  const std::vector<absl::string_view> fields = absl::StrSplit(line, ',');
  if (fields.size() != kPixels + 1) {
    return absl::DataLossError(
        absl::StrCat(fields.size(), " fields, expected ", kPixels, " pixels and a label"));
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    const bool is_label = i == kPixels;
    absl::StatusOr<int> value = ParseField(fields[i], is_label ? kClasses - 1 : kDarkest);
    if (!value.ok()) return Annotate(value.status(), absl::StrCat("field ", i + 1));
    if (is_label) {
      dataset->labels.push_back(*value);
    } else {
      dataset->inputs.push_back(static_cast<float>(*value) / kDarkest);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Dataset> ParseDigits(std::string_view csv) {
  Dataset dataset = {.name = "digits", .features = kPixels, .classes = kClasses};
  const absl::string_view text(csv.data(), csv.size());
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    ++dataset.samples;
    RETURN_IF_ERROR(
        Annotate(ParseLine(line, &dataset), absl::StrCat("digits.csv, line ", dataset.samples)));
  }
  if (dataset.samples == 0) return absl::DataLossError("digits.csv: no lines");
  return dataset;
}

absl::StatusOr<Dataset> LoadDigits() {
  const std::string_view packed(lockstep_digits_begin,
                                static_cast<size_t>(lockstep_digits_end - lockstep_digits_begin));
  absl::StatusOr<std::string> csv = Gunzip(packed, kTextBytesMax);
  if (!csv.ok()) return Annotate(csv.status(), "bundled digits.csv.gz");
  return ParseDigits(*csv);
}

}  // namespace lockstep
