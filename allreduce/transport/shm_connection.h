// shm_connection.h: both directions of one channel to one peer: posted requests in, bytes through
// the rings, never waiting. Large messages go in pieces, so that the receiver copies out what the
// sender has just copied in, while it is in cache. Errors: InvalidArgument (header),
// Unavailable naming the peer (it has written nonsense into the ring). Threads: one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "allreduce/transport/link.h"
#include "allreduce/transport/shm_bell.h"
#include "allreduce/transport/shm_ring.h"
#include "base/traffic.h"

namespace lockstep {

// What a look at a connection achieved.
struct ShmMoved {
  bool bytes = false;     // some
  bool requests = false;  // one got done
};

struct ShmConnectionEnds {
  ShmRingWriter out;
  ShmRingReader in;
  ShmBell* bell;  // the peer's
};

class ShmConnection {
 public:
  ShmConnection(const ShmConnectionEnds& ends, int rank, int peer, int64_t message_bytes_max)
      : ends_(ends), rank_(rank), peer_(peer), message_bytes_max_(message_bytes_max) {}

  void PostSend(SendRequest* request) { sends_.push(request); }
  void PostRecv(RecvRequest* request) { recvs_.push(request); }
  void Cancel() {
    sends_.clear();
    recvs_.clear();
  }

  absl::Status Move(Traffic* traffic, ShmMoved* moved);
  // Would Move move a byte?
  bool CanMove() const {
    return (!sends_.empty() && ends_.out.Space() != 0) ||
           (!recvs_.empty() && ends_.in.Available() != 0);
  }

  bool sending() const { return !sends_.empty(); }
  bool receiving() const { return !recvs_.empty(); }
  int peer() const { return peer_; }

 private:
  void Send(Traffic* traffic, ShmMoved* moved);
  bool SendSome(const SendRequest& request);
  absl::Status Recv(Traffic* traffic, ShmMoved* moved);
  absl::Status RecvSome(RecvRequest* request, size_t* taken);

  ShmConnectionEnds ends_;
  int rank_;
  int peer_;
  int64_t message_bytes_max_;
  RequestQueue<SendRequest> sends_;
  RequestQueue<RecvRequest> recvs_;
  size_t sent_ = 0;      // bytes of the front message, header included
  size_t received_ = 0;  // likewise
  std::array<std::byte, sizeof(MessageHeader)> header_{};  // of the message being received
};

}  // namespace lockstep
