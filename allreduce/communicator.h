// communicator.h: the one public interface of the all-reduce engine.
// Collectives work in place, in the calling thread; every rank must make the same calls in the same
// order. Data are contiguous elements at any address: who has a strided view packs it first, so
// that the copy is seen. Each call is checked: sequence number, operation, root, dtype, count,
// algorithm and group travel with the data. A mismatch or a missing rank is an error on every rank
// within limits.sync_timeout_ms, naming all missing ranks and both sides of a mismatch
// (InvalidArgument: mismatch; DeadlineExceeded: late; Unavailable: lost; both with BlamedBy(), e.g.
// "rank 2"). No rank receives a result then (the data are unspecified), the group is dead, and each
// later call returns the first error at once. A rank returns only when every rank has made the same
// call; a rank that only sums (PS_EXCHANGE) already when every contributor has. If one is lost
// after that, a rank that is through already has its result, the right one, and fails in its next
// call. Threads: one object, one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allreduce/host/message_log.h"
#include "allreduce/schedule/generate.h"
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

  // data[i] = sum (average, least, greatest, product) over contributors, the same bits on every
  // rank. `count` may be 0. AVG: floats, divided once, after the sum. Every engine wraps integers.
  virtual absl::Status AllReduce(void* data, int64_t count, Dtype dtype, ReduceOp op) = 0;
  // As AllReduce, but only `root` gets the result; the others' data are unspecified afterwards.
  virtual absl::Status Reduce(void* data, int64_t count, Dtype dtype, ReduceOp op, int root) = 0;
  // Every rank ends with root's `count` elements. A ring of empty messages closes the call, so that
  // root too returns only when every rank has made it.
  virtual absl::Status Broadcast(void* data, int64_t count, Dtype dtype, int root) = 0;
  // `data` holds `count` elements on every rank; rank r gets the result of part r alone
  // (PartOf(count, world_size, r)), in place; the other parts are unspecified afterwards.
  virtual absl::Status ReduceScatter(void* data, int64_t count, Dtype dtype, ReduceOp op) = 0;
  // Rank r brings part r of `count` elements, in place; every rank ends with all parts.
  virtual absl::Status AllGather(void* data, int64_t count, Dtype dtype) = 0;
  // Returns when every rank has called.
  virtual absl::Status Barrier() = 0;

  // The next collective reads its data only when `event` has been reached: a cudaEvent_t of the
  // rank's GPU, recorded behind the last write to them. Without it, data on a GPU must be there
  // when the call is made. A result is there when its call returns. InvalidArgument: an engine that
  // takes no data of a GPU (all but CUDA).
  virtual absl::Status StartAfter(void* event);

  // Memory for the data of calls, aligned to 64 bytes, alive as long as the communicator. On a
  // shared-memory link it is mapped by every rank and reduced in place; elsewhere it is ordinary
  // memory. A collective call: every rank asks for the same size. ResourceExhausted, with needed
  // and available bytes.
  virtual absl::StatusOr<std::span<std::byte>> Allocate(int64_t bytes) = 0;
  // A communicator of some ranks of this one, in the order given, over the same links; every rank
  // of this communicator makes the call, those outside get null. It must not outlive its parent;
  // parent and child share one thread, and the failure of one ends both and all their groups. Its
  // errors name ranks as the outermost communicator does. InvalidArgument: a rank twice or out of
  // range.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Group(const std::vector<int>& ranks) = 0;

  // Ping-pong between ranks 0 and 1 over the links of this group, through the same executor; the
  // other ranks return at once. nullopt on every rank but 0, and where there is one rank alone.
  virtual absl::StatusOr<std::optional<LinkCost>> MeasureLink() = 0;
  // Which additions make each element of an AllReduce of `count` elements, in canonical form
  // (schedule/order.h): equal texts promise equal bits. With kAuto for f32; "": not known yet.
  virtual std::string AdditionOrder(int64_t count) const = 0;
  // With kAuto: which algorithm an AllReduce of `bytes` uses, and why; else that it was asked for.
  virtual std::string Choice(int64_t bytes) const = 0;
  // From now on notes every data message in `log`, which must outlive the use; null: none.
  virtual void LogMessages(MessageLog* log) = 0;

  // All bytes of all calls so far, headers included, failure reports excluded.
  virtual Traffic traffic() const = 0;
};

// Part r of `count` elements over n ranks; the first count % n parts are one element longer.
struct ElementRange {
  int64_t first = 0;
  int64_t count = 0;
};
ElementRange PartOf(int64_t count, int world_size, int rank);

struct CommunicatorOptions {
  Algorithm algorithm = Algorithm::kRing;  // kAuto: measured at the first call, then by size
  int channels = 1;
  int servers = 0;     // kPsExchange, see ScheduleSpec
  int group_size = 0;  // kHierarchical
  Placement placement = Placement::kSpare;
  Limits limits;
};

// Runs schedules over `link` (rank and world_size are the link's). `clock` must outlive the
// communicator.
std::unique_ptr<Communicator> MakeHostCommunicator(std::unique_ptr<Link> link, const Clock& clock,
                                                   const CommunicatorOptions& options);

}  // namespace lockstep
