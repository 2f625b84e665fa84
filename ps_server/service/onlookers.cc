#include "ps_server/service/onlookers.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ps_server/service/onlooker_answers.h"
#include "ps_server/wire/grpc_frame.h"

namespace lockstep {
namespace {

absl::StatusOr<std::string> BytesOf(const grpc::ByteBuffer& buffer) {
  ReceivedBytes received;
  if (buffer.Length() > kOnlookerBytesMax || !Unpack(buffer, &received)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a message of ", buffer.Length(), " bytes; at most ", kOnlookerBytesMax));
  }
  std::string bytes;
  for (const Bytes piece : received.pieces) {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return bytes;
}

grpc::Status ToGrpc(const absl::Status& status) {
  const absl::string_view text = status.message();
  return {static_cast<grpc::StatusCode>(status.code()), {text.data(), text.size()}};
}

}  // namespace

// One operation at a time: its tag is the call itself.
struct Onlookers::Call {
  enum class Awaits : uint8_t { kCaller, kMessage, kWritten, kEnd };
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter io{&context};
  grpc::ByteBuffer message;
  Awaits awaits = Awaits::kCaller;
  int64_t since_ns = 0;
};

Onlookers::Onlookers(const Clock& clock) : clock_(clock) {}
Onlookers::~Onlookers() { Shutdown(); }

void Onlookers::Register(grpc::ServerBuilder* builder) {
  builder->RegisterAsyncGenericService(&service_);
  // Polled between the exchange's events, and so no place for anybody to wait for connections.
  queue_ = builder->AddCompletionQueue(/*is_frequently_polled=*/false);
}

void Onlookers::AcceptNext() {
  if (accepting_ || stopping_ || calls_.size() >= kOnlookersMax) return;
  accepting_ = true;
  auto call = std::make_unique<Call>();
  Call* const next = call.get();
  calls_.emplace(next, std::move(call));
  service_.RequestCall(&next->context, &next->io, queue_.get(), queue_.get(), next);
}

void Onlookers::Poll() {
  void* tag = nullptr;
  bool ok = false;
  const gpr_timespec now = AfterNs(0);
  while (queue_->AsyncNext(&tag, &ok, now) == grpc::CompletionQueue::GOT_EVENT) {
    On(static_cast<Call*>(tag), ok);
  }
  EndLate();
}

void Onlookers::On(Call* call, bool ok) {
  switch (call->awaits) {
    case Call::Awaits::kCaller:
      accepting_ = !ok;  // the server is shut down: nobody comes any more
      if (!ok) break;
      AcceptNext();
      call->since_ns = clock_.NowNs();
      call->awaits = Call::Awaits::kMessage;
      return call->io.Read(&call->message, call);
    case Call::Awaits::kMessage:
      return ok ? OnRead(call) : Finish(call, grpc::Status::OK);
    case Call::Awaits::kWritten:
      if (!ok) return Finish(call, grpc::Status::CANCELLED);
      call->awaits = Call::Awaits::kMessage;
      return call->io.Read(&call->message, call);
    case Call::Awaits::kEnd:
      break;
  }
  calls_.erase(call);
  AcceptNext();
}

void Onlookers::OnRead(Call* call) {
  const absl::StatusOr<std::string> request = BytesOf(call->message);
  if (!request.ok()) return Finish(call, ToGrpc(request.status()));
  const absl::StatusOr<std::string> answer = AnswerOnlooker(call->context.method(), *request);
  if (!answer.ok()) return Finish(call, ToGrpc(answer.status()));
  const grpc::Slice slice(*answer);
  call->awaits = Call::Awaits::kWritten;
  call->io.Write(grpc::ByteBuffer(&slice, 1), call);
}

void Onlookers::Finish(Call* call, const grpc::Status& status) {
  call->awaits = Call::Awaits::kEnd;
  call->io.Finish(status, call);
}

void Onlookers::EndLate() {
  const int64_t now_ns = clock_.NowNs();
  for (const auto& [pointer, call] : calls_) {
    const bool late = now_ns - call->since_ns >= kOnlookerMsMax * kNsPerMs;
    if (call->awaits != Call::Awaits::kCaller && late) call->context.TryCancel();
  }
}

void Onlookers::Shutdown() {
  if (std::exchange(stopping_, true) || queue_ == nullptr) return;
  queue_->Shutdown();
  void* tag = nullptr;
  bool ok = false;
  const gpr_timespec deadline = AfterNs(kOnlookerMsMax * kNsPerMs);
  grpc::CompletionQueue::NextStatus next = grpc::CompletionQueue::GOT_EVENT;
  while (next == grpc::CompletionQueue::GOT_EVENT) next = queue_->AsyncNext(&tag, &ok, deadline);
  if (next == grpc::CompletionQueue::SHUTDOWN) return calls_.clear();
  // gRPC may still write to these: they are left to it for good.
  for (auto& [pointer, call] : calls_) static_cast<void>(call.release());
  calls_.clear();
  static_cast<void>(queue_.release());
}

}  // namespace lockstep
