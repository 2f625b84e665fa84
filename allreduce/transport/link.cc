#include "allreduce/transport/link.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace lockstep {
namespace {

std::string RankList(const std::vector<int>& ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(ranks, ", "));
}

}  // namespace

absl::Status CheckHeader(int rank, int peer, const MessageHeader& expected,
                         const MessageHeader& actual, int64_t message_bytes_max) {
  const auto differs = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " channel ", expected.channel,
                                                   ": message ", expected.sequence, " from rank ",
                                                   peer, " (its move ", actual.move, ") ", what));
  };
  if (actual.magic != expected.magic || actual.kind != expected.kind) {
    return differs(absl::StrFormat("starts with magic %08x kind %d, expected %08x kind %d",
                                   actual.magic, static_cast<int>(actual.kind), expected.magic,
                                   static_cast<int>(expected.kind)));
  }
  if (actual.epoch != expected.epoch || actual.channel != expected.channel) {
    return differs(absl::StrCat("is of epoch ", actual.epoch, " channel ", actual.channel,
                                ", expected epoch ", expected.epoch, " channel ",
                                expected.channel));
  }
  if (actual.payload_bytes > static_cast<uint64_t>(message_bytes_max)) {
    return differs(
        absl::StrCat("announces ", actual.payload_bytes,
                     " bytes, more than limits.message_bytes_max = ", message_bytes_max));
  }
  if (actual.fingerprint != expected.fingerprint) {
    return differs(absl::StrFormat("belongs to another call: fingerprint %016x there, %016x here",
                                   actual.fingerprint, expected.fingerprint));
  }
  if (actual.sequence != expected.sequence) {
    return differs(absl::StrCat("has sequence ", actual.sequence, ", expected ", expected.sequence,
                                ": a message was lost or came twice"));
  }
  if (actual.payload_bytes != expected.payload_bytes || actual.tile != expected.tile) {
    return differs(absl::StrCat("has ", actual.payload_bytes, " bytes of tile ", actual.tile,
                                ", expected ", expected.payload_bytes, " bytes of tile ",
                                expected.tile));
  }
  return absl::OkStatus();
}

absl::Status PendingError(int rank, const std::vector<int>& senders,
                          const std::vector<int>& receivers) {
  if (senders.empty() && receivers.empty()) {
    return absl::DeadlineExceededError(
        absl::StrCat("rank ", rank, " moved data until its deadline and wasn't through"));
  }
  std::vector<std::string> parts;
  if (!senders.empty()) parts.push_back(absl::StrCat(RankList(senders), " to send"));
  if (!receivers.empty()) parts.push_back(absl::StrCat(RankList(receivers), " to receive"));
  return absl::DeadlineExceededError(absl::StrCat(
      "rank ", rank, " waited for ", absl::StrJoin(parts, " and "), " until its deadline"));
}

}  // namespace lockstep
