// server_stream.h: a worker's stream to one server: what is queued, what is being written and read.
// No waiting and no policy: PsClient polls the completion queue and hands events over.
// Errors: Unavailable when the stream ends, with what gRPC says; it blames the server.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/socket.h"
#include "base/sync.h"
#include "base/traffic.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/wire/frame.h"

namespace lockstep {

// Counts the slices of the caller's memory that gRPC still holds; they may be let go on any thread.
class LentMemory {
 public:
  void Lend() {
    MutexLock lock(&mu_);
    ++slices_;
  }
  void Return() {
    MutexLock lock(&mu_);
    --slices_;
  }
  bool AwaitReturned(int64_t timeout_ms) {
    MutexLock lock(&mu_);
    return mu_.AwaitFor([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return slices_ == 0; },
                        timeout_ms);
  }

 private:
  Mutex mu_;
  int64_t slices_ ABSL_GUARDED_BY(mu_) = 0;
};

class ServerStream {
 public:
  struct Options {
    int32_t server = 0;
    Endpoint endpoint;
    std::string token;
    int64_t message_bytes_max = 0;
  };
  enum class Op { kStart, kRead, kWrite, kFinish };
  struct Tag {
    ServerStream* stream;
    Op op;
  };

  // Starts the call; its events come from `queue`, with a Tag.
  ServerStream(const Options& options, grpc::CompletionQueue* queue,
               std::shared_ptr<LentMemory> lent);

  // `payload` must stay as it is until LentMemory has it back.
  void Send(const PsFrame& header, Bytes payload);
  // Gets a frame that was read; false: too early, the stream keeps it and reads no further.
  using OnFrame = std::function<absl::StatusOr<bool>(const Frame&)>;
  // Handles one event. Not OK: the stream has ended.
  absl::Status OnEvent(Op op, bool ok, const OnFrame& on_frame);
  // Offers a frame that was too early again.
  absl::Status Offer(const OnFrame& on_frame) {
    return kept_ ? OnRead(on_frame) : absl::OkStatus();
  }
  void Cancel() { context_.TryCancel(); }

  int64_t queued() const { return static_cast<int64_t>(queue_.size()); }
  const std::string& member() const { return member_; }  // "server 1"
  const std::string& name() const { return name_; }      // "server 1 (127.0.0.1:4000)"
  const Traffic& traffic() const { return traffic_; }

 private:
  void ReadNext();
  void WriteNext();
  void Finish();
  void CountReceived();
  absl::Status OnRead(const OnFrame& on_frame);
  absl::Status Ended() const;

  const std::string member_;
  const std::string name_;
  const std::shared_ptr<LentMemory> lent_;  // shared: slices may outlive the stream
  Tag start_{this, Op::kStart};
  Tag read_{this, Op::kRead};
  Tag write_{this, Op::kWrite};
  Tag finish_{this, Op::kFinish};
  std::unique_ptr<grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer>> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> io_;
  std::deque<grpc::ByteBuffer> queue_;
  grpc::ByteBuffer incoming_;
  bool started_ = false;
  bool writing_ = false;
  bool broken_ = false;
  bool finishing_ = false;
  bool kept_ = false;  // incoming_ is a frame that was too early
  grpc::Status final_;
  Traffic traffic_;
};

}  // namespace lockstep
