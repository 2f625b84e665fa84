#include "ps_server/service/assembly.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lockstep {

absl::Status Assembly::Append(const Frame& frame, int64_t unit_bytes, std::byte* to) {
  const PsFrame& header = frame.header;
  const bool fits =
      header.offset() == taken_bytes_ / unit_bytes && frame.payload_bytes % unit_bytes == 0 &&
      frame.payload_bytes <= total_bytes_ - taken_bytes_ &&
      header.total() == total_bytes_ / unit_bytes && (frame.payload_bytes > 0 || total_bytes_ == 0);
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shard ", header.shard(), ": a chunk of ", frame.payload_bytes, " bytes at ",
        header.offset(), " of ", header.total(), "; expected it at ", taken_bytes_ / unit_bytes,
        " of ", total_bytes_ / unit_bytes, ", in units of ", unit_bytes, " bytes"));
  }
  for (const Bytes piece : frame.payload) {
    std::memcpy(to + taken_bytes_, piece.data(), piece.size());
    taken_bytes_ += static_cast<int64_t>(piece.size());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Replicate>> Assembly::AddReplicate(const Frame& frame) {
  if (!state_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("shard ", frame.header.shard(), ": an update within a state"));
  }
  if (!message_.has_value()) {
    ASSIGN_OR_RETURN(message_, DecodeReplicate(frame.header.replicated()));
    const bool values =
        message_->kind == Replicate::Kind::kUpdate || message_->kind == Replicate::Kind::kPush;
    const int64_t elements = values ? elements_ : 0;
    taken_bytes_ = 0;
    total_bytes_ = elements * static_cast<int64_t>(sizeof(float));
    values_ = std::make_shared<std::vector<float>>(static_cast<size_t>(elements));
  }
  RETURN_IF_ERROR(Append(frame, sizeof(float), reinterpret_cast<std::byte*>(values_->data())));
  if (taken_bytes_ < total_bytes_) return std::optional<Replicate>();
  std::optional<Replicate> message = std::exchange(message_, std::nullopt);
  if (total_bytes_ > 0) message->payload = std::move(values_);
  values_ = nullptr;
  return message;
}

absl::StatusOr<std::optional<ShardState>> Assembly::AddState(const Frame& frame) {
  if (message_.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("shard ", frame.header.shard(), ": a state within an update"));
  }
  if (state_.empty()) {
    if (frame.header.total() < 1 || frame.header.total() > state_bytes_max_) {
      return absl::InvalidArgumentError(absl::StrCat("shard ", frame.header.shard(),
                                                     ": a state of ", frame.header.total(),
                                                     " bytes; expected 1 to ", state_bytes_max_));
    }
    taken_bytes_ = 0;
    total_bytes_ = frame.header.total();
    state_.resize(static_cast<size_t>(total_bytes_));
  }
  RETURN_IF_ERROR(Append(frame, 1, state_.data()));
  if (taken_bytes_ < total_bytes_) return std::optional<ShardState>();
  const std::vector<std::byte> bytes = std::exchange(state_, {});
  ASSIGN_OR_RETURN(ShardState state, DecodeState(bytes));
  return std::optional<ShardState>(std::move(state));
}

}  // namespace lockstep
