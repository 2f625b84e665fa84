#include "experiments/spec/names.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep {
namespace {

// Levenshtein: insertions, deletions and replacements from `a` to `b`.
size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string Nearest(const std::string& word, const std::vector<std::string>& names) {
  const std::string lower = absl::AsciiStrToLower(word);
  std::string best;
  size_t best_distance = std::max<size_t>(1, (word.size() + 1) / 3) + 1;
  if (word.size() > 64) return best;  // no name is that long, and the distance is quadratic
  for (const std::string& name : names) {
    const size_t distance = EditDistance(lower, absl::AsciiStrToLower(name));
    if (distance < best_distance) {
      best = name;
      best_distance = distance;
    }
  }
  return best;
}

std::string KnownNames(const std::string& word, const std::string& kind,
                       const std::vector<std::string>& names) {
  const std::string nearest = Nearest(word, names);
  const std::string guess =
      nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?");
  if (names.empty()) return absl::StrCat(guess, "; there are no ", kind, " here");
  return absl::StrCat(guess, nearest.empty() ? "; known " : " Known ", kind, ": ",
                      absl::StrJoin(names, ", "));
}

std::vector<std::string> FieldNames(const google::protobuf::Descriptor& message) {
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(message.field_count()));
  for (int i = 0; i < message.field_count(); ++i) names.push_back(message.field(i)->name());
  return names;
}

std::vector<std::string> ValueNames(const google::protobuf::EnumDescriptor& enumeration) {
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(enumeration.value_count()));
  for (int i = 0; i < enumeration.value_count(); ++i) names.push_back(enumeration.value(i)->name());
  return names;
}

}  // namespace lockstep
