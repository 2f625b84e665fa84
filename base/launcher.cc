#include "base/launcher.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"

namespace lockstep {
namespace {

struct Launcher {
  const char* rank;
  const char* world_size;
};
constexpr std::array<Launcher, 3> kLaunchers = {{
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"RANK", "WORLD_SIZE"},
    {"SLURM_PROCID", "SLURM_NTASKS"},
}};

struct Value {
  std::string name;  // "--rank", "RANK"
  int value = 0;
};

// Every setting of one quantity, the flag first.
absl::StatusOr<std::vector<Value>> Gather(const char* flag, std::optional<int> given,
                                          const char* Launcher::*variable,
                                          const Environment& environment) {
  std::vector<Value> values;
  if (given) values.push_back({flag, *given});
  for (const Launcher& launcher : kLaunchers) {
    const std::optional<std::string> text = environment(launcher.*variable);
    if (!text) continue;
    int number = 0;
    if (!absl::SimpleAtoi(*text, &number)) {
      return absl::InvalidArgumentError(absl::StrCat(launcher.*variable, "=", *text,
                                                     " is not a number; unset it or set a rank's "
                                                     "number there"));
    }
    values.push_back({launcher.*variable, number});
  }
  if (given) return values;
  for (const Value& other : values) {
    const Value& used = values.front();
    if (other.value == used.value) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(used.name, "=", used.value, " and ", other.name, "=", other.value,
                     " disagree; unset one of them, or say it with ", flag));
  }
  return values;
}

std::string Overruled(const std::vector<Value>& values) {
  std::vector<std::string> overruled;
  for (const Value& other : values) {
    if (other.value == values.front().value) continue;
    overruled.push_back(absl::StrCat(other.name, "=", other.value));
  }
  return absl::StrJoin(overruled, ", ");
}

absl::Status NoRank() {
  std::vector<std::string> names;
  names.reserve(kLaunchers.size());
  for (const Launcher& launcher : kLaunchers) names.emplace_back(launcher.rank);
  return absl::InvalidArgumentError(
      absl::StrCat("no rank is given: pass --rank, or start under a launcher that sets one of ",
                   absl::StrJoin(names, ", ")));
}

std::string Describe(const std::vector<Value>& ranks, const std::vector<Value>& sizes) {
  std::string text = absl::StrCat("rank ", ranks.front().value);
  if (!sizes.empty()) absl::StrAppend(&text, " of ", sizes.front().value);
  absl::StrAppend(&text, " from ", ranks.front().name);
  if (!sizes.empty()) absl::StrAppend(&text, " and ", sizes.front().name);
  std::vector<std::string> overruled = {Overruled(ranks), Overruled(sizes)};
  overruled.erase(std::remove(overruled.begin(), overruled.end(), ""), overruled.end());
  if (!overruled.empty()) {
    absl::StrAppend(&text, " (", absl::StrJoin(overruled, ", "), " overruled)");
  }
  return text;
}

}  // namespace

absl::StatusOr<RankSource> FindRank(const RankFlags& flags, const Environment& environment) {
  ASSIGN_OR_RETURN(const std::vector<Value> ranks,
                   Gather("--rank", flags.rank, &Launcher::rank, environment));
  ASSIGN_OR_RETURN(const std::vector<Value> sizes,
                   Gather("--world-size", flags.world_size, &Launcher::world_size, environment));
  if (ranks.empty()) return NoRank();
  RankSource source;
  source.rank = ranks.front().value;
  source.world_size = sizes.empty() ? 0 : sizes.front().value;
  source.text = Describe(ranks, sizes);
  const bool outside = !sizes.empty() && source.rank >= source.world_size;
  if (source.rank < 0 || outside || (!sizes.empty() && source.world_size < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.text, ": a rank is one of 0..world size - 1; correct one of the two"));
  }
  return source;
}

}  // namespace lockstep
