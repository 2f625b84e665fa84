#include "allreduce/schedule/barrier.h"

#include "allreduce/schedule/assemble.h"
#include "allreduce/schedule/fit.h"
#include "base/check.h"

namespace lockstep {

std::vector<Lane> BarrierLanes(const BarrierSpec& spec, int32_t rank) {
  const int64_t n = spec.world_size;
  CHECK(rank >= 0 && rank < n) << "rank " << rank << " of " << n;
  Lane lane;
  if (n == 1) return {lane};
  const auto after = [&](int64_t distance) { return static_cast<int32_t>((rank + distance) % n); };
  lane.moves.push_back({.send_to = after(1), .in = 0});
  for (int64_t distance = 1; distance < n; distance *= 2) {
    lane.moves.push_back({.recv_from = after(n - distance),
                          .send_to = 2 * distance < n ? after(2 * distance) : kNone,
                          .out = 0});
  }
  return {lane};
}

absl::StatusOr<Shape> BarrierShape(const BarrierSpec& spec) {
  RETURN_IF_ERROR(CheckWorld("barrier", spec.world_size, 1));
  return Shape{
      .world_size = spec.world_size, .contributors = spec.world_size, .chunks = 1, .slots = 1};
}

absl::StatusOr<Schedule> MakeBarrier(const BarrierSpec& spec) {
  return Assemble<BarrierSpec>({BarrierShape, BarrierLanes}, spec);
}

}  // namespace lockstep
