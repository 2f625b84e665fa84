// contestant.h: one rank of what takes part in the bench: our communicators, one an algorithm, over
// one kind of link; another library, called as its users call it: its blocking all-reduce, without
// our call check (data of nccl and cuda are the host's, and go through the GPU's memory in each
// call); or a roof: a rank that reads and writes its own memory once, which is what an
// all-reduce in shared memory cannot do without. Errors: those of communicator.h and
// engine/library.h; NotFound for an algorithm that was not set up. Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allreduce/engine.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/limits.h"
#include "experiments/bench/protocol.h"

namespace lockstep {

struct ContestantOptions {
  std::string engine;  // "host", "mpi", "gloo", "nccl", "cuda", "roof"
  std::string link;    // "tcp", "shm", "gpu"
  int rank = 0;
  int world_size = 1;
  int servers = 0;  // of ps_exchange: the last so many ranks, which hold no input
  int channels = 1;
  std::vector<std::string> algorithms;  // host; cuda: one
  NcclPlace nccl;
  std::string library_dir;
  std::string token;
  int64_t bytes_max = 0;  // of one buffer
  Limits limits;
};

struct Sent {
  double bytes = -1;  // since the start; below 0: not known
  double messages = -1;
};

class Contestant {
 public:
  virtual ~Contestant() = default;

  // What the other ranks must know of this one.
  virtual absl::StatusOr<std::string> Address() = 0;
  // [rank]. Returns words about itself: "Open MPI v4.1.4".
  virtual absl::StatusOr<std::string> Connect(const std::vector<std::string>& addresses) = 0;

  // Turns to an algorithm; the buffer its operations work in, at least as large as the turn's data.
  virtual absl::StatusOr<std::span<std::byte>> Begin(const Turn& turn) = 0;
  virtual absl::Status AllReduce(const Turn& turn, void* data) = 0;
  // After the last operation: until every rank is through and may sleep.
  virtual absl::Status End() = 0;

  virtual int contributors() const = 0;  // ranks [0, contributors) hold input; after Begin
  virtual Sent sent() const = 0;
  virtual std::string Choice(const Turn& turn) const = 0;
};

// `clock` and `abort` must outlive it.
absl::StatusOr<std::unique_ptr<Contestant>> MakeContestant(const ContestantOptions& options,
                                                           const Clock& clock, const Abort& abort);

inline constexpr char kRoof[] = "roof";          // the engine
inline constexpr char kRoofUpdate[] = "update";  // its algorithm

// Two collectives in place of one, beside the algorithms' names.
inline constexpr char kReduceBroadcast[] = "reduce_broadcast";                  // tree
inline constexpr char kReduceScatterAllGather[] = "reduce_scatter_all_gather";  // ring

}  // namespace lockstep
