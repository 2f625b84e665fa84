#include "allreduce/schedule/choose.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "allreduce/schedule/work.h"
#include "base/check.h"

namespace lockstep {
namespace {

constexpr size_t kRivalsNamed = 2;

std::optional<double> TimeNs(Algorithm algorithm, int32_t world_size, int64_t bytes,
                             const CostModel& cost, int64_t tile_bytes) {
  const ScheduleSpec spec{.algorithm = algorithm, .world_size = world_size};
  const auto form = ClosedFormOf(spec, cost, bytes, tile_bytes);
  if (!form.has_value()) return std::nullopt;
  if (cost.crowd_message_ns == 0) return form->time_ns;
  return std::max(form->time_ns, CrowdNs(cost, WorkOf(spec, bytes, tile_bytes)));
}

std::string Ms(double time_ns) { return absl::StrFormat("%.3g", time_ns / 1e6); }

}  // namespace

std::string Choice::Why() const {
  std::string why =
      absl::StrCat(NameOf(algorithm()), ": ", Ms(candidates.front().time_ns), " ms modelled");
  for (size_t i = 1; i < candidates.size() && i <= kRivalsNamed; ++i) {
    absl::StrAppend(&why, i == 1 ? "; " : ", ", NameOf(candidates[i].algorithm), " ",
                    Ms(candidates[i].time_ns));
  }
  return why;
}

Choice ChooseAlgorithm(int32_t world_size, int64_t bytes, const CostModel& cost,
                       int64_t tile_bytes) {
  CHECK_GE(world_size, 1);
  CHECK_GE(bytes, 0);
  Choice choice;
  for (const Algorithm algorithm : kAlgorithms) {
    if (algorithm == Algorithm::kPsExchange) continue;  // who serves is the caller's to say
    const auto time_ns = TimeNs(algorithm, world_size, bytes, cost, tile_bytes);
    if (time_ns.has_value()) choice.candidates.push_back({algorithm, 1, *time_ns});
  }
  std::stable_sort(choice.candidates.begin(), choice.candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.time_ns < b.time_ns; });
  CHECK(!choice.candidates.empty()) << "world_size " << world_size;  // a ring runs on any
  return choice;
}

std::optional<int64_t> CrossingBytes(int32_t world_size, Algorithm small, Algorithm large,
                                     const CostModel& cost, int64_t from, int64_t to,
                                     int64_t tile_bytes) {
  const auto crossed = [&](int64_t bytes) {
    const auto small_ns = TimeNs(small, world_size, bytes, cost, tile_bytes);
    const auto large_ns = TimeNs(large, world_size, bytes, cost, tile_bytes);
    return small_ns.has_value() && large_ns.has_value() && *large_ns <= *small_ns;
  };
  if (from > to) return std::nullopt;
  int64_t below = from;
  if (crossed(below)) return below;
  int64_t above = below;
  while (!crossed(above)) {
    if (above == to) return std::nullopt;
    below = above;
    above = above > to / 2 ? to : std::max<int64_t>(1, 2 * above);
  }
  while (above - below > 1) {
    const int64_t middle = below + (above - below) / 2;
    (crossed(middle) ? above : below) = middle;
  }
  return above;
}

}  // namespace lockstep
