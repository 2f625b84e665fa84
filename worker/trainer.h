// trainer.h: the training loop: batch, forward and backward, synchronise, record, probe. The same
// for every way to stay in step. Threads: one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/member/member.h"
#include "base/socket.h"
#include "proto/record.pb.h"

namespace lockstep {

struct TrainerContext {
  int rank = 0;
  std::string token;
  Listener listener;  // bound before this worker joined
  Limits limits;
  const Clock* clock = nullptr;
  const Abort* abort = nullptr;
  Started started = {};  // who this process is; the trainer adds what it trains
};

class Trainer {
 public:
  virtual ~Trainer() = default;
  // Builds data, model and synchronizer, brings up the links and spreads rank 0's start values.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const Start& start,
                                                         TrainerContext context);
  // All steps. `member` hears of each finished one.
  virtual absl::Status Train(Member* member) = 0;
  // The last finished step.
  virtual int64_t step() const = 0;
  // The last record. Returns `status`, or why it could not be written.
  virtual absl::Status RecordEnd(const absl::Status& status) = 0;
};

}  // namespace lockstep
