#include "allreduce/transport/tcp_connection.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr size_t kHeaderBytes = sizeof(MessageHeader);

// The part of header + payload that begins `done` bytes in. Returns the number of pieces.
size_t Remaining(void* header, void* payload, size_t payload_bytes, size_t done,
                 std::array<iovec, 2>* pieces) {
  size_t used = 0;
  if (done < kHeaderBytes) {
    (*pieces)[used++] = {static_cast<std::byte*>(header) + done, kHeaderBytes - done};
    done = kHeaderBytes;
  }
  const size_t skipped = done - kHeaderBytes;
  if (skipped < payload_bytes) {
    (*pieces)[used++] = {static_cast<std::byte*>(payload) + skipped, payload_bytes - skipped};
  }
  return used;
}

}  // namespace

absl::Status TcpConnection::Broken(int error) const {
  return absl::UnavailableError(
      absl::StrCat("rank ", rank_, " lost rank ", peer_, ": its connection ",
                   error == 0 ? "was closed" : absl::StrCat("broke (", std::strerror(error), ")")));
}

void TcpConnection::PostSend(SendRequest* request, Traffic* traffic) {
  const bool first = sends_.empty();
  sends_.push(request);
  bool completed = false;
  if (first) Send(traffic, &completed).IgnoreError();
}

absl::Status TcpConnection::Move(Traffic* traffic, bool* completed) {
  RETURN_IF_ERROR(Send(traffic, completed));
  return Recv(traffic, completed);
}

absl::Status TcpConnection::Send(Traffic* traffic, bool* completed) {
  while (!sends_.empty()) {
    SendRequest* request = sends_.front();
    std::array<iovec, 2> pieces{};
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen =
        Remaining(&request->header, const_cast<std::byte*>(request->payload.data()),
                  request->payload.size(), sent_, &pieces);
    const ssize_t bytes = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (bytes < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return absl::OkStatus();
      return Broken(errno);
    }
    sent_ += static_cast<size_t>(bytes);
    traffic->sent_bytes += bytes;
    if (sent_ < kHeaderBytes + request->payload.size()) continue;
    sent_ = 0;
    ++traffic->sent_messages;
    sends_.pop();
    request->done = true;
    *completed = true;
  }
  return absl::OkStatus();
}

absl::Status TcpConnection::Recv(Traffic* traffic, bool* completed) {
  while (!recvs_.empty()) {
    RecvRequest* request = recvs_.front();
    std::array<iovec, 2> pieces{};
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = Remaining(header_.data(), request->payload.data(), request->payload.size(),
                                   received_, &pieces);
    const ssize_t bytes = recvmsg(fd_.get(), &message, MSG_DONTWAIT);
    if (bytes == 0) return Broken(0);
    if (bytes < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return absl::OkStatus();
      return Broken(errno);
    }
    const bool had_header = received_ >= kHeaderBytes;
    received_ += static_cast<size_t>(bytes);
    traffic->received_bytes += bytes;
    if (!had_header && received_ >= kHeaderBytes) {
      MessageHeader actual;
      std::memcpy(&actual, header_.data(), kHeaderBytes);
      RETURN_IF_ERROR(CheckHeader(rank_, peer_, request->expected, actual, message_bytes_max_));
    }
    if (received_ < kHeaderBytes + request->payload.size()) continue;
    received_ = 0;
    ++traffic->received_messages;
    recvs_.pop();
    request->done = true;
    *completed = true;
  }
  return absl::OkStatus();
}

}  // namespace lockstep
