// async.h: collectives that run in a thread of their own, in the order they were called, while the
// caller goes on. Each call gives a handle; its data must stay untouched until the handle is done.
// Errors: a handle's are the communicator's; Cancelled for a call that had not begun when its
// communicator went, ResourceExhausted for one that found no room in the queue within
// limits.sync_timeout_ms. Nothing here waits for longer than the calls' own deadlines, so neither
// does the destructor: the call that runs ends by its deadline or by the process's abort, those
// behind it never begin. Threads: an object belongs to one thread; several objects may work at
// once; handles may be waited for anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allreduce/communicator.h"
#include "base/limits.h"

namespace lockstep {

class CallQueue;
struct AsyncCall;

class CallHandle {
 public:
  // Of the call, or DeadlineExceeded when it is not through by then; it goes on in that case.
  absl::Status Wait(int64_t timeout_ms) const;
  bool done() const;

 private:
  friend class AsyncCommunicator;
  explicit CallHandle(std::shared_ptr<AsyncCall> call) : call_(std::move(call)) {}
  std::shared_ptr<AsyncCall> call_;  // shared with the queue: either may outlive the other
};

class AsyncCommunicator {
 public:
  // `limits` are the communicator's; `calls_max`: how many may wait, the one that runs aside.
  AsyncCommunicator(std::unique_ptr<Communicator> communicator, const Limits& limits,
                    size_t calls_max = 64);
  ~AsyncCommunicator();
  AsyncCommunicator(const AsyncCommunicator&) = delete;
  AsyncCommunicator& operator=(const AsyncCommunicator&) = delete;

  int rank() const { return communicator_->rank(); }
  int world_size() const { return communicator_->world_size(); }
  int contributors() const { return communicator_->contributors(); }

  // As in communicator.h.
  CallHandle AllReduce(void* data, int64_t count, Dtype dtype, ReduceOp op);
  CallHandle Reduce(void* data, int64_t count, Dtype dtype, ReduceOp op, int root);
  CallHandle Broadcast(void* data, int64_t count, Dtype dtype, int root);
  CallHandle ReduceScatter(void* data, int64_t count, Dtype dtype, ReduceOp op);
  CallHandle AllGather(void* data, int64_t count, Dtype dtype);
  CallHandle Barrier();
  // Anything else a communicator offers, in its turn.
  CallHandle Submit(std::function<absl::Status(Communicator*)> call);

  // As in communicator.h; return when it is done. The group's calls run in this object's thread, in
  // the order of all calls. It must not outlive this object. Null: this rank is not one of it.
  absl::StatusOr<std::span<std::byte>> Allocate(int64_t bytes);
  absl::StatusOr<std::unique_ptr<AsyncCommunicator>> Group(const std::vector<int>& ranks);

 private:
  AsyncCommunicator(std::unique_ptr<Communicator> group, const AsyncCommunicator& whole);
  absl::Status RunInTurn(std::function<absl::Status(Communicator*)> call);

  const int64_t call_ms_;  // no call takes longer
  const int64_t calls_max_;
  std::unique_ptr<Communicator> communicator_;
  const std::unique_ptr<CallQueue> owned_;  // null in a group
  CallQueue* const queue_;
};

}  // namespace lockstep
