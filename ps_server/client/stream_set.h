// stream_set.h: a worker's streams to all its servers, and every wait on them: each has a deadline,
// looks at the abort, and names what is missing and from whom. No protocol: PsClient says what is
// sent and what a received frame means. After an error the set is dead: every later wait and
// check() fails with it. The destructor cancels the streams, and returns when gRPC no longer reads
// from memory that was sent. Errors: DeadlineExceeded (blames the server that did not answer),
// Unavailable (a server is gone, blamed), the abort's reason, what `on_frame` returns. One thread
// at a time.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/traffic.h"
#include "ps_server/client/server_stream.h"

namespace lockstep {

class StreamSet {
 public:
  // A wait: for what, until when, and which limit says so.
  struct Wait {
    std::string operation;
    const char* limit = "";
    int64_t timeout_ms = 0;
    int64_t start_ns = 0;
    int64_t deadline_ns = 0;
  };
  // What would end it.
  struct Awaited {
    std::string what;
    std::vector<std::string> servers;  // who have to do something, "server 1"
  };
  using OnFrame = std::function<absl::Status(size_t shard, const Frame& frame)>;

  // `clock` and `abort` must outlive the set.
  StreamSet(int32_t rank, OnFrame on_frame, const Clock& clock, const Abort& abort)
      : rank_(rank), on_frame_(std::move(on_frame)), clock_(clock), abort_(abort) {}
  ~StreamSet();
  StreamSet(const StreamSet&) = delete;
  StreamSet& operator=(const StreamSet&) = delete;

  // Starts the call to the next server; its shard is the number of streams before.
  ServerStream& Add(const ServerStream::Options& options);
  size_t size() const { return streams_.size(); }
  ServerStream& operator[](size_t shard) const { return *streams_[shard]; }

  // `grace_ms`: how much later than our own clock says a server's own word may come.
  Wait StartWait(const std::string& operation, const char* limit, int64_t timeout_ms,
                 int64_t grace_ms) const;
  // Handles one event, or returns after a short while without one.
  absl::Status Turn(const Wait& wait, const Awaited& awaited);
  // Until every stream is `done`; `what` says what one that isn't owes.
  absl::Status AwaitAll(const Wait& wait, const std::function<bool(size_t shard)>& done,
                        const std::function<std::string(size_t shard)>& what);
  const absl::Status& check() const { return failed_; }

  Traffic traffic() const;

 private:
  absl::Status Fail(const absl::Status& status, const Wait& wait);
  bool Drain();

  const int32_t rank_;
  const OnFrame on_frame_;
  const Clock& clock_;
  const Abort& abort_;
  absl::Status failed_;
  std::unique_ptr<grpc::CompletionQueue> queue_ = std::make_unique<grpc::CompletionQueue>();
  const std::shared_ptr<LentMemory> lent_ = std::make_shared<LentMemory>();  // see ServerStream
  std::vector<std::unique_ptr<ServerStream>> streams_;                       // [shard]
};

}  // namespace lockstep
