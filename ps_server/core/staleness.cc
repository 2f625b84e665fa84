#include "ps_server/core/staleness.h"

#include <algorithm>

namespace lockstep {

void StalenessMeter::Read(int32_t worker, int64_t now_ns) {
  Worker& reader = workers_[static_cast<size_t>(worker)];
  reader.others_at_read = applied_ - reader.applied;
  reader.slowest_at_read =
      std::min_element(workers_.begin(), workers_.end(), [](const Worker& a, const Worker& b) {
        return a.applied < b.applied;
      })->applied;
  reader.read_ns = now_ns;
}

Staleness StalenessMeter::Apply(int32_t worker, int64_t now_ns) {
  Worker& writer = workers_[static_cast<size_t>(worker)];
  Staleness staleness = {.update = applied_ - writer.applied - writer.others_at_read,
                         .clock = writer.applied - writer.slowest_at_read,
                         .gap_ns = {},
                         .cycle_ns = {}};
  if (writer.apply_ns.has_value() && writer.read_ns.has_value()) {
    staleness.gap_ns = *writer.read_ns - *writer.apply_ns;
    staleness.cycle_ns = now_ns - *writer.apply_ns;
  }
  ++writer.applied;
  ++applied_;
  writer.read_ns.reset();
  writer.apply_ns = now_ns;
  return staleness;
}

}  // namespace lockstep
