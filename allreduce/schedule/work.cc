#include "allreduce/schedule/work.h"

#include <algorithm>

#include "allreduce/schedule/layout.h"
#include "base/check.h"

namespace lockstep {
namespace {

constexpr double kCopied = 1.5;        // two more copies beside the two of the link and the fold
constexpr double kCrowdedFrom = 1.25;  // times the closed form: more than noise makes of it

}  // namespace

Work WorkOf(const ScheduleSpec& spec, int64_t bytes, int64_t tile_bytes) {
  Work work;
  for (int32_t rank = 0; rank < spec.world_size; ++rank) {
    const absl::StatusOr<RankPart> part = MakeRankPart(spec, rank);
    CHECK(part.ok()) << part.status();
    const int64_t tiles = ChunkLayout{bytes, part->chunks, tile_bytes}.Tiles();
    for (const Lane& lane : part->lanes) {
      for (const Move& move : lane.moves) {
        if (move.send_to == kNone) continue;
        const double times = move.count > 1 && tiles > 1 ? kCopied : 1;
        work.messages += tiles;
        work.bytes += times * static_cast<double>(bytes) * move.count / part->chunks;
      }
    }
  }
  return work;
}

double CrowdNs(const CostModel& cost, const Work& work) {
  return static_cast<double>(work.messages) * cost.crowd_message_ns +
         work.bytes * cost.crowd_ns_per_byte;
}

CostModel WithCrowd(CostModel cost, const ScheduleSpec& spec, const CrowdTimes& times) {
  const auto form = ClosedFormOf(spec, cost, 0, times.tile_bytes);
  CHECK(form.has_value());
  cost.crowd_message_ns = cost.crowd_ns_per_byte = 0;
  if (times.empty_ns <= kCrowdedFrom * form->time_ns) return cost;
  const Work work = WorkOf(spec, times.bytes, times.tile_bytes);
  cost.crowd_message_ns = times.empty_ns / static_cast<double>(WorkOf(spec, 0, 1).messages);
  cost.crowd_ns_per_byte = std::max(0.0, times.large_ns - times.empty_ns) / work.bytes;
  return cost;
}

}  // namespace lockstep
