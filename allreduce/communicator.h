// communicator.h: the one public interface of the all-reduce engine.
// Collectives work in place, in the calling thread; every rank must make the same calls in the same
// order. Each call is checked: sequence number, operation, dtype, count and algorithm travel with
// the data. A mismatch or a missing rank is an error on every rank within limits.sync_timeout_ms,
// naming all missing ranks and both sides of a mismatch (InvalidArgument: mismatch;
// DeadlineExceeded: late; Unavailable: lost; both with BlamedBy(), e.g. "rank 2"). No rank receives
// a result then (the data are unspecified), the group is dead, and each later call returns the
// first error at once. A rank returns only when every rank has made the same call; a rank that only
// sums (PS_EXCHANGE) already when every contributor has. If one is lost after that, a rank that is
// through already has its result, the right one, and fails in its next call. Threads: one object,
// one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allreduce/host/message_log.h"
#include "allreduce/schedule/algorithm.h"
#include "allreduce/transport/link.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/link_cost.h"
#include "base/numeric/dtype.h"
#include "base/traffic.h"

namespace lockstep {

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  // Ranks [0, contributors()) hold input and get results. The others only sum (PS_EXCHANGE): they
  // make the same calls, with `data` a workspace of the same size whose content means nothing.
  virtual int contributors() const = 0;

  // data[i] = sum (least, greatest, product) over contributors, the same bits on every rank.
  // `count` elements; 0 is allowed.
  virtual absl::Status AllReduce(void* data, int64_t count, Dtype dtype, ReduceOp op) = 0;
  // Every rank ends with root's `count` elements. A ring of empty messages closes the call, so that
  // root too returns only when every rank has made it.
  virtual absl::Status Broadcast(void* data, int64_t count, Dtype dtype, int root) = 0;

  // Ping-pong between ranks 0 and 1 over the links of this group, through the same executor; the
  // other ranks return at once. nullopt on every rank but 0, and where there is one rank alone.
  virtual absl::StatusOr<std::optional<LinkCost>> MeasureLink() = 0;
  // Which additions make each element of an AllReduce of `count` elements, in canonical form
  // (schedule/order.h): equal texts promise equal bits.
  virtual std::string AdditionOrder(int64_t count) const = 0;
  // From now on notes every data message in `log`, which must outlive the use; null: none.
  virtual void LogMessages(MessageLog* log) = 0;

  // All bytes of all calls so far, headers included, failure reports excluded.
  virtual Traffic traffic() const = 0;
};

struct CommunicatorOptions {
  Algorithm algorithm = Algorithm::kRing;
  int channels = 1;
  int servers = 0;  // kPsExchange: the last so many ranks of the link only sum
  Limits limits;
};

// Runs schedules over `link` (rank and world_size are the link's). `clock` must outlive the
// communicator.
std::unique_ptr<Communicator> MakeHostCommunicator(std::unique_ptr<Link> link, const Clock& clock,
                                                   const CommunicatorOptions& options);

}  // namespace lockstep
