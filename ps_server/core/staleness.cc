#include "ps_server/core/staleness.h"

namespace lockstep {

void StalenessMeter::Read(int32_t worker, int64_t version, int64_t least_step, int64_t now_ns) {
  Worker& reader = workers_[static_cast<size_t>(worker)];
  reader.mark.others_at_read = version - reader.mark.applied;
  reader.mark.slowest_at_read = least_step;
  reader.read_ns = now_ns;
}

Staleness StalenessMeter::Apply(int32_t worker, int64_t step, int64_t now_ns) {
  Worker& writer = workers_[static_cast<size_t>(worker)];
  Staleness staleness = {.update = applied_ - writer.mark.applied - writer.mark.others_at_read,
                         .clock = step - 1 - writer.mark.slowest_at_read,
                         .gap_ns = {},
                         .cycle_ns = {}};
  if (writer.apply_ns.has_value() && writer.read_ns.has_value()) {
    staleness.gap_ns = *writer.read_ns - *writer.apply_ns;
    staleness.cycle_ns = now_ns - *writer.apply_ns;
  }
  ++writer.mark.applied;
  ++applied_;
  writer.read_ns.reset();
  writer.apply_ns = now_ns;
  return staleness;
}

std::vector<StalenessMark> StalenessMeter::Save() const {
  std::vector<StalenessMark> marks;
  marks.reserve(workers_.size());
  for (const Worker& worker : workers_) marks.push_back(worker.mark);
  return marks;
}

void StalenessMeter::Restore(const std::vector<StalenessMark>& marks) {
  applied_ = 0;
  for (size_t r = 0; r < workers_.size(); ++r) {
    workers_[r] = {.mark = marks[r], .read_ns = {}, .apply_ns = {}};
    applied_ += marks[r].applied;
  }
}

}  // namespace lockstep
