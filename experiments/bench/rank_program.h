// rank_program.h: what every rank process of `lockstep bench` does, whatever it measures: says
// hello to its launcher, hears where the others are, sleeps until its turn, reports it, and ends
// when its launcher does (protocol.h). Errors go to the launcher and to standard error. Threads:
// one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/abort.h"
#include "base/clock.h"
#include "experiments/bench/protocol.h"

namespace lockstep {

// What one kind of rank does with its turns.
class TurnTaker {
 public:
  virtual ~TurnTaker() = default;
  // Where peers reach it, opaque; empty: nobody does.
  virtual absl::StatusOr<std::string> Address() = 0;
  // [rank]. Words about itself, for the launcher.
  virtual absl::StatusOr<std::string> Connect(const std::vector<std::string>& addresses) = 0;
  virtual absl::StatusOr<TurnReport> Run(const Turn& turn) = 0;
};

struct RankPlace {
  std::string program;  // "ps_rank"
  std::string control;  // unix socket of the launcher
  int rank = 0;
  int ranks = 1;  // that say hello, all of them
};

using MakeTurnTaker = std::function<absl::StatusOr<std::unique_ptr<TurnTaker>>(const Clock& clock,
                                                                               const Abort& abort)>;

// Returns the exit code.
int RunRank(const RankPlace& place, const MakeTurnTaker& make);

// Runs `body` that often. [i]: how long the i-th took, from the end of the one before.
absl::StatusOr<std::vector<int64_t>> TimeEach(const Clock& clock, int operations,
                                              const std::function<absl::Status()>& body);

}  // namespace lockstep
