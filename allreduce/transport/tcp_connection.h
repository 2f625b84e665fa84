// tcp_connection.h: one established data connection: posted requests in, bytes out, never waiting.
// Header and payload go through one system call; a payload is received straight into its request.
// Errors: Unavailable naming the peer (connection closed or broken), InvalidArgument (header).
// Threads: one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "allreduce/transport/link.h"
#include "base/socket.h"
#include "base/traffic.h"

namespace lockstep {

class TcpConnection {
 public:
  TcpConnection(UniqueFd fd, int rank, int peer, int64_t message_bytes_max)
      : fd_(std::move(fd)), rank_(rank), peer_(peer), message_bytes_max_(message_bytes_max) {}

  // Sends what the socket takes at once; a failure shows itself in the next Move.
  void PostSend(SendRequest* request, Traffic* traffic);
  void PostRecv(RecvRequest* request) { recvs_.push(request); }
  void Cancel() {
    sends_.clear();
    recvs_.clear();
  }

  // Moves what the socket takes and has now; sets *completed when a request got done.
  absl::Status Move(Traffic* traffic, bool* completed);

  bool sending() const { return !sends_.empty(); }
  bool receiving() const { return !recvs_.empty(); }
  int peer() const { return peer_; }
  int fd() const { return fd_.get(); }

 private:
  absl::Status Send(Traffic* traffic, bool* completed);
  absl::Status Recv(Traffic* traffic, bool* completed);
  absl::Status Broken(int error) const;

  UniqueFd fd_;
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
