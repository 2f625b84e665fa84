#include "allreduce/transport/shm_connection.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr size_t kHeaderBytes = sizeof(MessageHeader);
constexpr size_t kPieceBytes = size_t{32} << 10;  // fits the cache nearest to either core

}  // namespace

absl::Status ShmConnection::Move(Traffic* traffic, ShmMoved* moved) {
  if (!ends_.out.Sane() || !ends_.in.Sane()) {
    return absl::UnavailableError(absl::StrCat("rank ", rank_, " lost rank ", peer_,
                                               ": it has written nonsense into shared memory"));
  }
  Send(traffic, moved);
  return Recv(traffic, moved);
}

// One piece of the message; false: no room.
bool ShmConnection::SendSome(const SendRequest& request) {
  const size_t before = sent_;
  if (sent_ < kHeaderBytes) {
    sent_ += ends_.out.Put(std::as_bytes(std::span(&request.header, 1)).subspan(sent_));
  }
  if (sent_ >= kHeaderBytes) {
    const auto rest = request.payload.subspan(sent_ - kHeaderBytes);
    sent_ += ends_.out.Put(rest.first(std::min(rest.size(), kPieceBytes)));
  }
  if (sent_ == before) return false;
  ends_.out.Publish();
  ends_.bell->Ring();
  return true;
}

void ShmConnection::Send(Traffic* traffic, ShmMoved* moved) {
  while (!sends_.empty()) {
    SendRequest* request = sends_.front();
    const size_t before = sent_;
    if (!SendSome(*request)) return;
    moved->bytes = true;
    traffic->sent_bytes += static_cast<int64_t>(sent_ - before);
    if (sent_ < kHeaderBytes + request->payload.size()) continue;
    sent_ = 0;
    ++traffic->sent_messages;
    sends_.pop();
    request->done = true;
    moved->requests = true;
  }
}

absl::Status ShmConnection::RecvSome(RecvRequest* request, size_t* taken) {
  const size_t before = received_;
  if (received_ < kHeaderBytes) {
    received_ += ends_.in.Take(std::span(header_).subspan(received_));
    if (received_ == kHeaderBytes) {
      MessageHeader actual;
      std::memcpy(&actual, header_.data(), kHeaderBytes);
      RETURN_IF_ERROR(CheckHeader(rank_, peer_, request->expected, actual, message_bytes_max_));
    }
  }
  if (received_ >= kHeaderBytes) {
    const auto rest = request->payload.subspan(received_ - kHeaderBytes);
    received_ += ends_.in.Take(rest.first(std::min(rest.size(), kPieceBytes)));
  }
  *taken = received_ - before;
  if (*taken == 0) return absl::OkStatus();
  ends_.in.Release();
  ends_.bell->Ring();
  return absl::OkStatus();
}

absl::Status ShmConnection::Recv(Traffic* traffic, ShmMoved* moved) {
  while (!recvs_.empty()) {
    RecvRequest* request = recvs_.front();
    size_t taken = 0;
    RETURN_IF_ERROR(RecvSome(request, &taken));
    if (taken == 0) return absl::OkStatus();
    moved->bytes = true;
    traffic->received_bytes += static_cast<int64_t>(taken);
    if (received_ < kHeaderBytes + request->payload.size()) continue;
    received_ = 0;
    ++traffic->received_messages;
    recvs_.pop();
    request->done = true;
    moved->requests = true;
  }
  return absl::OkStatus();
}

}  // namespace lockstep
