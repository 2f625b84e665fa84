// tcp_control.h: the control connection to one peer: failure reports, goodbyes, and the news of its
// death. A closed connection without a goodbye means a lost rank; so does a malformed message.
// Threads: one. Never waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "allreduce/transport/link.h"
#include "base/socket.h"

namespace lockstep {

class TcpControl {
 public:
  TcpControl() = default;  // for the rank itself: no connection, nothing ever happens
  TcpControl(UniqueFd fd, int64_t epoch) : fd_(std::move(fd)), epoch_(epoch) {}

  // Queues a message and sends what the socket takes.
  void Send(MessageKind kind, std::span<const std::byte> payload);
  // Sends what is queued and reads what is there; true when *state changed.
  bool Move(PeerState* state);

  bool open() const { return fd_.valid() && !closed_; }
  bool sending() const { return open() && !out_.empty(); }
  int fd() const { return fd_.get(); }

 private:
  void Flush();
  bool Parse(PeerState* state);  // false: malformed

  UniqueFd fd_;
  int64_t epoch_ = 0;
  bool closed_ = false;
  std::string out_;
  std::string in_;
};

}  // namespace lockstep
