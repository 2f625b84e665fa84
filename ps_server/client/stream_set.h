// stream_set.h: a worker's streams to all its servers, and every wait on them: each has a deadline,
// looks at the abort, and names what is missing and from whom. No protocol: PsClient says what is
// sent and what a received frame means. While streams are being opened one that the server ends as
// unavailable is opened again, kConnectTriesMax times in all, after pauses that double. After an
// error the set is dead: every later wait and check() fails with it. The destructor cancels the
// streams, and returns when gRPC no longer reads from memory that was sent. Errors:
// DeadlineExceeded (blames the servers that did not answer), Unavailable (a server is gone,
// blamed), the abort's reason, what `on_frame` returns. One thread at a time.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/traffic.h"
#include "ps_server/client/server_stream.h"

namespace lockstep {

// Servers are bound before anybody hears of them, so a second that one is away is long.
inline constexpr int kConnectTriesMax = 5;
inline constexpr int64_t kFirstPauseMs = 50;

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
  // What would end it. Asked for only when it did not end.
  struct Awaited {
    std::string what;
    std::vector<std::string> servers;  // who have to do something, "server 1"
  };
  // `index`: of the stream, in the order of Add. False: too early, OfferKept brings it again.
  using OnFrame = std::function<absl::StatusOr<bool>(size_t index, const Frame& frame)>;
  using OnReopened = std::function<void(size_t index)>;

  // `clock` and `abort` must outlive the set.
  StreamSet(int32_t rank, OnFrame on_frame, const Clock& clock, const Abort& abort)
      : rank_(rank), on_frame_(std::move(on_frame)), clock_(clock), abort_(abort) {}
  ~StreamSet();
  StreamSet(const StreamSet&) = delete;
  StreamSet& operator=(const StreamSet&) = delete;

  // Starts the call to the next server.
  void Add(const ServerStream::Options& options);
  size_t size() const { return slots_.size(); }
  ServerStream& operator[](size_t index) const { return *slots_[index].stream; }

  // Until it is called with nothing, streams are being opened; `reopened` hears of a new one.
  void SetReopened(OnReopened reopened) { reopened_ = std::move(reopened); }
  // `grace_ms`: how much later than our own clock says a server's own word may come.
  Wait StartWait(const std::string& operation, const char* limit, int64_t timeout_ms,
                 int64_t grace_ms) const;
  // Handles one event, or returns after a short while without one.
  absl::Status Turn(const Wait& wait, const std::function<Awaited()>& awaited);
  absl::Status OfferKept(const Wait& wait);
  const absl::Status& check() const { return failed_; }

  Traffic traffic() const;

 private:
  struct Slot {
    ServerStream::Options options;
    std::unique_ptr<ServerStream> stream;
    int tries = 0;
    std::optional<int64_t> reopen_ns;  // its stream has ended, and is opened again then
  };

  void Open(Slot* slot);
  void ReopenDue(int64_t now_ns);
  bool MayReopen(const absl::Status& ended, Slot* slot);
  absl::Status Handle(const ServerStream::Tag& tag, bool ok);
  absl::Status Fail(const absl::Status& status, const Wait& wait);
  bool Drain();

  const int32_t rank_;
  const OnFrame on_frame_;
  const Clock& clock_;
  const Abort& abort_;
  OnReopened reopened_;
  absl::Status failed_;
  std::unique_ptr<grpc::CompletionQueue> queue_ = std::make_unique<grpc::CompletionQueue>();
  const std::shared_ptr<LentMemory> lent_ = std::make_shared<LentMemory>();  // see ServerStream
  std::vector<Slot> slots_;
  std::vector<std::unique_ptr<ServerStream>> retired_;  // ended; gRPC may still have events of them
};

}  // namespace lockstep
