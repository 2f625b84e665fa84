#include "experiments/cli/schedule_source.h"

#include <cerrno>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr int64_t kFileBytesMax = int64_t{64} << 20;

template <typename Value>
std::string NamesOf(const Value& values) {
  return absl::StrJoin(values, ", ",
                       [](std::string* out, const auto value) { *out += NameOf(value); });
}

constexpr std::array kPlacements = {Placement::kSpare, Placement::kColocated, Placement::kSplit};

absl::Status Unknown(const std::string& option, const std::string& word, const std::string& names) {
  return absl::InvalidArgumentError(
      absl::StrCat(option, " '", word, "' does not exist; there are ", names));
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  if (!stream) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  const int64_t bytes = stream.tellg();
  if (bytes < 0 || bytes > kFileBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is no file of at most ", kFileBytesMax,
                                                   " bytes, so no schedule's text"));
  }
  std::string text(static_cast<size_t>(bytes), '\0');
  stream.seekg(0);
  stream.read(text.data(), bytes);
  if (!stream) return ErrnoStatus(errno, absl::StrCat("cannot read ", path));
  return text;
}

absl::StatusOr<FoundSchedule> FromFile(const ScheduleArguments& arguments) {
  const std::string& file = arguments.what;
  if (arguments.collective || arguments.root || arguments.channels || arguments.group_size ||
      arguments.servers || arguments.placement) {
    return absl::InvalidArgumentError(
        absl::StrCat(file,
                     ": a file says all by itself; only algorithms take --collective, "
                     "--root, --channels, --group-size, --servers and --placement"));
  }
  ASSIGN_OR_RETURN(const std::string content, ReadFile(file));
  absl::StatusOr<ScheduleText> text = ParseSchedule(content);
  if (!text.ok()) {
    return absl::Status(text.status().code(), absl::StrCat(file, ":", text.status().message()));
  }
  if (arguments.ranks.value_or(text->schedule.world_size) != text->schedule.world_size) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": says ranks ", text->schedule.world_size,
                                                   ", --ranks ", *arguments.ranks,
                                                   "; leave --ranks out"));
  }
  return FoundSchedule{.text = *std::move(text), .file = file, .name = file};
}

}  // namespace

std::string AlgorithmList() { return NamesOf(kAlgorithms); }

std::string FoundSchedule::Title() const {
  const Schedule& schedule = text.schedule;
  return absl::StrCat(name, " ", NameOf(text.goal), ", ranks ", schedule.world_size, ", chunks ",
                      schedule.chunks, ", slots ", schedule.slots);
}

absl::StatusOr<ScheduleSpec> SpecOf(const ScheduleArguments& arguments) {
  if (!arguments.ranks.has_value()) {
    return absl::InvalidArgumentError("--ranks is needed, for example --ranks 4");
  }
  ScheduleSpec spec{.world_size = *arguments.ranks,
                    .servers = arguments.servers.value_or(0),
                    .channels = arguments.channels.value_or(1),
                    .root = arguments.root.value_or(0),
                    .group_size = arguments.group_size.value_or(0)};
  if (arguments.collective.has_value()) {
    const std::optional<Collective> collective = CollectiveNamed(*arguments.collective);
    if (!collective) return Unknown("--collective", *arguments.collective, NamesOf(kCollectives));
    spec.collective = *collective;
  }
  if (arguments.placement.has_value()) {
    const auto* const placement =
        std::find_if(kPlacements.begin(), kPlacements.end(),
                     [&](Placement each) { return NameOf(each) == *arguments.placement; });
    if (placement == kPlacements.end()) {
      return Unknown("--placement", *arguments.placement, NamesOf(kPlacements));
    }
    spec.placement = *placement;
  }
  return spec;
}

absl::StatusOr<FoundSchedule> FindSchedule(const ScheduleArguments& arguments) {
  const std::optional<Algorithm> algorithm = AlgorithmNamed(arguments.what);
  if (!algorithm.has_value() || *algorithm == Algorithm::kAuto) {
    if (std::ifstream(arguments.what)) return FromFile(arguments);
    return absl::InvalidArgumentError(absl::StrCat(
        "'", arguments.what, "' is no algorithm and no file; there are ", AlgorithmList()));
  }
  ASSIGN_OR_RETURN(ScheduleSpec spec, SpecOf(arguments));
  spec.algorithm = *algorithm;
  ASSIGN_OR_RETURN(Schedule schedule, MakeSchedule(spec));
  return FoundSchedule{.text = {.schedule = std::move(schedule),
                                .goal = spec.collective,
                                .root = spec.root,
                                .lines = {}},
                       .file = "",
                       .name = NameOf(*algorithm)};
}

}  // namespace lockstep
