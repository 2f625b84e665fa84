#include "allreduce/transport/tcp_control.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace lockstep {

void TcpControl::Send(MessageKind kind, std::span<const std::byte> payload) {
  if (!open()) return;
  MessageHeader header;
  header.kind = kind;
  header.epoch = epoch_;
  header.payload_bytes = payload.size();
  out_.append(reinterpret_cast<const char*>(&header), sizeof(header));
  if (!payload.empty()) {
    out_.append(reinterpret_cast<const char*>(payload.data()), payload.size());
  }
  Flush();
}

void TcpControl::Flush() {
  while (sending()) {
    const ssize_t bytes = send(fd_.get(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) {
      // A broken connection shows itself when it is read; nobody is left to send to.
      if (errno != EAGAIN && errno != EWOULDBLOCK) out_.clear();
      return;
    }
    out_.erase(0, static_cast<size_t>(bytes));
  }
}

bool TcpControl::Move(PeerState* state) {
  if (!open()) return false;
  Flush();
  const bool reported = !state->report.empty();
  const bool left = state->left;
  std::array<char, 2048> buffer{};
  while (!closed_) {
    const ssize_t bytes = recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (bytes > 0) {
      in_.append(buffer.data(), static_cast<size_t>(bytes));
      closed_ = !Parse(state);
      continue;
    }
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    closed_ = true;
  }
  if (closed_ && !state->left) state->lost = true;
  return closed_ || reported != !state->report.empty() || left != state->left;
}

bool TcpControl::Parse(PeerState* state) {
  while (in_.size() >= sizeof(MessageHeader)) {
    MessageHeader header;
    std::memcpy(&header, in_.data(), sizeof(header));
    if (header.magic != kMessageMagic || header.epoch != epoch_ ||
        header.payload_bytes > kReportBytesMax) {
      return false;
    }
    const size_t bytes = sizeof(header) + header.payload_bytes;
    if (in_.size() < bytes) return true;
    if (header.kind == MessageKind::kGoodbye) {
      state->left = true;
    } else if (header.kind == MessageKind::kReport) {
      state->report = in_.substr(sizeof(header), header.payload_bytes);
    } else {
      return false;
    }
    in_.erase(0, bytes);
  }
  return true;
}

}  // namespace lockstep
