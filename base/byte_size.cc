#include "base/byte_size.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr int64_t kBytesMax = int64_t{4} << 30;

struct Unit {
  const char* name;
  int64_t bytes;
};
constexpr std::array<Unit, 8> kUnits = {{{"KiB", int64_t{1} << 10},
                                         {"MiB", int64_t{1} << 20},
                                         {"GiB", int64_t{1} << 30},
                                         {"KB", 1'000},
                                         {"MB", 1'000'000},
                                         {"GB", 1'000'000'000},
                                         {"B", 1},
                                         {"", 1}}};

}  // namespace

absl::StatusOr<int64_t> ParseBytes(const std::string& text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  int64_t value = 0;
  const std::string name = text.substr(digits);
  const auto* const unit = std::find_if(kUnits.begin(), kUnits.end(),
                                        [&](const Unit& known) { return known.name == name; });
  if (unit == kUnits.end() || !absl::SimpleAtoi(text.substr(0, digits), &value) ||
      value > kBytesMax / unit->bytes) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is no size up to ",
                                                   BytesText(kBytesMax), ", e.g. 4, 64KiB, 16MiB"));
  }
  return value * unit->bytes;
}

absl::StatusOr<std::vector<int64_t>> ParseSizes(const std::string& text) {
  std::set<int64_t> sizes;
  const std::vector<std::string> range = absl::StrSplit(text, ':');
  if (range.size() == 3) {
    ASSIGN_OR_RETURN(const int64_t from, ParseBytes(range[0]));
    ASSIGN_OR_RETURN(const int64_t to, ParseBytes(range[1]));
    double factor = 0;
    if (!absl::SimpleAtod(range[2], &factor) || !(factor > 1) || from < 1 || to < from) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", text, "' needs FROM <= TO and a FACTOR above 1, e.g. 4:64MiB:4"));
    }
    for (auto size = static_cast<double>(from); size <= static_cast<double>(to);) {
      sizes.insert(static_cast<int64_t>(size));
      size = std::max(std::floor(size * factor), size + 1);  // a factor near 1 moves on, too
    }
  } else if (range.size() == 1) {
    const std::vector<std::string> words = absl::StrSplit(text, ',', absl::SkipEmpty());
    for (const std::string& word : words) {
      ASSIGN_OR_RETURN(const int64_t size, ParseBytes(word));
      sizes.insert(size);
    }
  }
  if (sizes.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' must be FROM:TO:FACTOR or a list, e.g. 4:64MiB:4"));
  }
  return std::vector<int64_t>(sizes.begin(), sizes.end());
}

std::string BytesText(int64_t bytes) {
  for (const char* const name : {"GiB", "MiB", "KiB"}) {
    const auto* const unit = std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& known) {
      return std::string(known.name) == name;
    });
    if (bytes >= unit->bytes && bytes % unit->bytes == 0) {
      return absl::StrCat(bytes / unit->bytes, " ", name);
    }
  }
  return absl::StrCat(bytes, " B");
}

}  // namespace lockstep
