#include "allreduce/async.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "allreduce/call_queue.h"
#include "base/status.h"

namespace lockstep {

absl::Status CallHandle::Wait(int64_t timeout_ms) const { return call_->Wait(timeout_ms); }
bool CallHandle::done() const { return call_->done(); }

AsyncCommunicator::AsyncCommunicator(std::unique_ptr<Communicator> communicator,
                                     const Limits& limits, size_t calls_max)
    : call_ms_(limits.sync_timeout_ms + limits.answer_grace_ms),
      calls_max_(static_cast<int64_t>(calls_max)),
      communicator_(std::move(communicator)),
      owned_(std::make_unique<CallQueue>(calls_max)),
      queue_(owned_.get()) {}

AsyncCommunicator::AsyncCommunicator(std::unique_ptr<Communicator> group,
                                     const AsyncCommunicator& whole)
    : call_ms_(whole.call_ms_),
      calls_max_(whole.calls_max_),
      communicator_(std::move(group)),
      queue_(whole.queue_) {}

AsyncCommunicator::~AsyncCommunicator() {
  // MPI insists on one thread at a time: a group goes where its calls run, between two of them. The
  // whole goes after their thread, in the one that made it.
  queue_->Forget(this,
                 absl::CancelledError(absl::StrCat(
                     "rank ", rank(), ": its communicator went before the call began")),
                 [this] {
                   if (owned_ == nullptr) communicator_.reset();
                 });
}

CallHandle AsyncCommunicator::Submit(std::function<absl::Status(Communicator*)> call) {
  const auto run = [communicator = communicator_.get(), body = std::move(call)] {
    return body(communicator);
  };
  // Room comes when the running call ends, and that is no later than its deadline.
  return CallHandle(queue_->Add(this, run, call_ms_));
}

CallHandle AsyncCommunicator::AllReduce(void* data, int64_t count, Dtype dtype, ReduceOp op) {
  return Submit([=](Communicator* c) { return c->AllReduce(data, count, dtype, op); });
}

CallHandle AsyncCommunicator::Reduce(void* data, int64_t count, Dtype dtype, ReduceOp op,
                                     int root) {
  return Submit([=](Communicator* c) { return c->Reduce(data, count, dtype, op, root); });
}

CallHandle AsyncCommunicator::Broadcast(void* data, int64_t count, Dtype dtype, int root) {
  return Submit([=](Communicator* c) { return c->Broadcast(data, count, dtype, root); });
}

CallHandle AsyncCommunicator::ReduceScatter(void* data, int64_t count, Dtype dtype, ReduceOp op) {
  return Submit([=](Communicator* c) { return c->ReduceScatter(data, count, dtype, op); });
}

CallHandle AsyncCommunicator::AllGather(void* data, int64_t count, Dtype dtype) {
  return Submit([=](Communicator* c) { return c->AllGather(data, count, dtype); });
}

CallHandle AsyncCommunicator::Barrier() {
  return Submit([](Communicator* c) { return c->Barrier(); });
}

absl::Status AsyncCommunicator::RunInTurn(std::function<absl::Status(Communicator*)> call) {
  // All that may be ahead, the one that runs, and the call itself.
  return Submit(std::move(call)).Wait((calls_max_ + 2) * call_ms_);
}

absl::StatusOr<std::span<std::byte>> AsyncCommunicator::Allocate(int64_t bytes) {
  // Shared, since the call may outlive the wait.
  const auto memory = std::make_shared<std::span<std::byte>>();
  RETURN_IF_ERROR(RunInTurn([=](Communicator* c) -> absl::Status {
    ASSIGN_OR_RETURN(*memory, c->Allocate(bytes));
    return absl::OkStatus();
  }));
  return *memory;
}

absl::StatusOr<std::unique_ptr<AsyncCommunicator>> AsyncCommunicator::Group(
    const std::vector<int>& ranks) {
  const auto group = std::make_shared<std::unique_ptr<Communicator>>();  // likewise
  RETURN_IF_ERROR(RunInTurn([=](Communicator* c) -> absl::Status {
    ASSIGN_OR_RETURN(*group, c->Group(ranks));
    return absl::OkStatus();
  }));
  if (*group == nullptr) return nullptr;
  return std::unique_ptr<AsyncCommunicator>(new AsyncCommunicator(std::move(*group), *this));
}

}  // namespace lockstep
