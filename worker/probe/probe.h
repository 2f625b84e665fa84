// probe.h: what a worker says about its replica: hashes of parameters and optimizer state and, for
// small models, a copy from which distances between replicas are computed after the run (never
// during it). Probed at steps 0 (start values), 1, every `every`-th and the last. Threads: the
// training thread.
#pragma once

#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/limits.h"
#include "base/member/record_writer.h"

namespace lockstep {

class Probe {
 public:
  // `clock` and `records` must outlive the probe.
  Probe(int64_t every, int64_t last_step, const Limits& limits, const Clock& clock,
        RecordWriter* records)
      : every_(every), last_step_(last_step), limits_(limits), clock_(clock), records_(records) {}

  bool Due(int64_t step) const {
    return step <= 1 || step == last_step_ || (every_ > 0 && step % every_ == 0);
  }
  void Take(int64_t step, std::span<const float> parameters,
            std::span<const float> optimizer_state);

 private:
  const int64_t every_;
  const int64_t last_step_;
  const Limits limits_;
  const Clock& clock_;
  RecordWriter* const records_;
};

}  // namespace lockstep
