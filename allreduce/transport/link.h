// link.h: one rank's end of the connections to all its peers: posted messages, moved by the caller.
// A connection is (sender, receiver, channel), first in first out. Requests belong to the caller
// and stay where they are until done; PostSend and Progress move bytes in the calling thread, so no
// other thread is woken. Every message carries a header that the receiver compares with what it
// expects before it believes a byte: the payload's size is bounded by limits.message_bytes_max
// before anything is allocated for it. Failure reports take a control path of their own: they never
// queue behind blocked data. Errors of Progress: DeadlineExceeded (names the peers with pending
// requests), Unavailable (names the lost rank), InvalidArgument (header: names both sides), Aborted
// (a peer has reported a failure), and the Abort's own status. After an error the link is only good
// for reports: Cancel, SendReport, AwaitReports. A link that is destroyed with nothing pending says
// goodbye; otherwise its peers see a lost rank. Threads: one object, one thread at a time.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/traffic.h"

namespace lockstep {

static_assert(std::endian::native == std::endian::little, "headers travel in host byte order");

enum class MessageKind : uint16_t { kData = 1, kReport = 2, kGoodbye = 3 };

inline constexpr uint32_t kMessageMagic = 0x4C'53'54'31;  // "LST1"

struct MessageHeader {
  uint32_t magic = kMessageMagic;
  MessageKind kind = MessageKind::kData;
  uint16_t channel = 0;
  int64_t epoch = 0;
  uint64_t fingerprint = 0;  // of the call: operation, dtype, count, ... (communicator.h)
  uint64_t sequence = 0;     // k-th message on this connection, from 0
  uint64_t payload_bytes = 0;
  uint32_t move = 0;  // the sender's, for error texts
  uint32_t tile = 0;
};
static_assert(sizeof(MessageHeader) == 48, "no padding: headers are compared and sent as bytes");

struct SendRequest {
  int32_t peer = 0;
  MessageHeader header;
  std::span<const std::byte> payload;
  // False from PostSend until the link is through with the payload, perhaps within PostSend itself.
  // Between calls of a link the payload of a pending request may be replaced by an equal copy.
  bool done = true;
  SendRequest* next = nullptr;  // the link's
};

struct RecvRequest {
  int32_t peer = 0;
  MessageHeader expected;  // all fields but `move` must match
  std::span<std::byte> payload;
  bool done = true;             // false from PostRecv until the payload is complete
  RecvRequest* next = nullptr;  // the link's
};

// Posted requests of one connection end, oldest first. Owns none of them.
template <typename Request>
class RequestQueue {
 public:
  bool empty() const { return first_ == nullptr; }
  Request* front() const { return first_; }
  void push(Request* request) {
    request->next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = request;
    last_ = request;
  }
  void pop() { first_ = first_->next; }
  void clear() { first_ = nullptr; }

 private:
  Request* first_ = nullptr;
  Request* last_ = nullptr;
};

// What this rank knows of another over the control path.
struct PeerState {
  bool lost = false;   // its connection broke, or it left while something was wanted from it
  bool left = false;   // it said goodbye
  std::string report;  // its failure report; empty: none
};

inline constexpr size_t kReportBytesMax = 768;  // below the least message_bytes_max

class SharedWindow;  // shared_window.h

class Link {
 public:
  virtual ~Link() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  virtual int channels() const = 0;
  virtual int64_t epoch() const = 0;
  virtual std::string name() const = 0;  // of its kind: "tcp", "in_process"

  // REQUIRES: a peer other than this rank, header.channel < channels(), header.payload_bytes =
  // payload.size().
  virtual void PostSend(SendRequest* request) = 0;
  virtual void PostRecv(RecvRequest* request) = 0;
  // Returns OK once at least one request has completed. `deadline_ns` is on the link's clock.
  virtual absl::Status Progress(int64_t deadline_ns) = 0;
  // Forgets all requests; the caller may free them. Messages half-way are cut, so no data after
  // this.
  virtual void Cancel() = 0;

  // Tells every peer that this rank's call failed; doesn't wait. At most kReportBytesMax.
  virtual void SendReport(std::span<const std::byte> report) = 0;
  // Returns OK once another peer has reported, left or been lost; moves no data.
  virtual absl::Status AwaitReports(int64_t deadline_ns) = 0;
  // [rank], as of the last Progress or AwaitReports.
  virtual const std::vector<PeerState>& peers() const = 0;

  // Memory of every rank, mapped by all; null where the link has none. It goes with the link.
  virtual SharedWindow* window() { return nullptr; }

  // OK until the process-wide abort was requested, then its reason.
  virtual absl::Status abort_status() const = 0;
  // Data messages with their headers; the control path is not counted.
  virtual Traffic traffic() const = 0;
};

// Compares a header from `peer` with what rank `rank` expects. OK, or InvalidArgument naming both
// sides.
absl::Status CheckHeader(int rank, int peer, const MessageHeader& expected,
                         const MessageHeader& actual, int64_t message_bytes_max);

// DeadlineExceeded: "rank 2 waited for rank 1 to send and ranks 0, 3 to receive until its
// deadline".
absl::Status PendingError(int rank, const std::vector<int>& senders,
                          const std::vector<int>& receivers);

}  // namespace lockstep
