#include "allreduce/host/call.h"

#include <limits>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/fingerprint.h"
#include "base/numeric/support.h"

namespace lockstep {
namespace {

std::string OperationName(Operation operation) {
  switch (operation) {
    case Operation::kAllReduce:
      return "all_reduce";
    case Operation::kBroadcast:
      return "broadcast";
    case Operation::kPingPong:
      return "ping_pong";
    case Operation::kReduce:
      return "reduce";
    case Operation::kReduceScatter:
      return "reduce_scatter";
    case Operation::kAllGather:
      return "all_gather";
    case Operation::kBarrier:
      return "barrier";
    case Operation::kGroup:
      return "group";
    case Operation::kAllocate:
      return "allocate";
    case Operation::kTune:
      return "tune";
  }
  return absl::StrCat("operation ", static_cast<int>(operation));
}

// What the operation has beside its element type: " sum", " sum root 0" or nothing.
std::string Detail(const CallDescription& call) {
  std::string detail;
  if (Reduces(call.operation)) absl::StrAppend(&detail, " ", NameOf(call.op));
  if (HasRoot(call.operation)) absl::StrAppend(&detail, " root ", call.root);
  if (call.operation == Operation::kGroup) {
    absl::StrAppendFormat(&detail, " ranks %016x", call.list);
  }
  return detail;
}

std::string Counted(int64_t count, const std::string& one) {
  return absl::StrCat(count, " ", one, count == 1 ? "" : "s");
}

// The algorithm and its parameters: "ps_exchange, 2 servers, split, 1 channel".
std::string Way(const CallDescription& call) {
  std::string way = NameOf(call.algorithm);
  if (call.servers != 0) absl::StrAppend(&way, ", ", Counted(call.servers, "server"));
  if (call.placement != Placement::kSpare) absl::StrAppend(&way, ", ", NameOf(call.placement));
  if (call.group_size != 0) absl::StrAppend(&way, ", groups of ", call.group_size);
  return absl::StrCat(way, ", ", Counted(call.channels, "channel"));
}

}  // namespace

bool Reduces(Operation operation) {
  return operation == Operation::kAllReduce || operation == Operation::kReduce ||
         operation == Operation::kReduceScatter;
}

bool HasRoot(Operation operation) {
  return operation == Operation::kBroadcast || operation == Operation::kReduce;
}

uint64_t FingerprintOf(const CallDescription& call) {
  return Fingerprint64(std::as_bytes(std::span(&call, 1)));
}

uint64_t FingerprintOfGroup(const CallDescription& creation) {
  const uint64_t fingerprint = FingerprintOf(creation);
  return fingerprint == 0 ? 1 : fingerprint;  // 0 means all ranks
}

uint64_t FingerprintOfRanks(const std::vector<int>& ranks) {
  return Fingerprint64(std::as_bytes(std::span(ranks)));
}

absl::Status CheckArguments(const CallDescription& call, int world_size) {
  if (call.count < 0) {
    return absl::InvalidArgumentError(absl::StrCat("count ", call.count, " is negative"));
  }
  if (call.count > std::numeric_limits<int64_t>::max() / SizeOf(call.dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("count ", call.count, " of ", NameOf(call.dtype), " is beyond any memory"));
  }
  if (Reduces(call.operation) && !Supports(call.dtype, call.op)) {
    return absl::InvalidArgumentError(absl::StrCat(NameOf(call.op), " of ", NameOf(call.dtype),
                                                   " is not defined; ", SupportText()));
  }
  if (HasRoot(call.operation) && (call.root < 0 || call.root >= world_size)) {
    return absl::InvalidArgumentError(
        absl::StrCat("root ", call.root, " is no rank of 0..", world_size - 1));
  }
  return absl::OkStatus();
}

std::string ToString(const CallDescription& call) {
  const std::string group = call.group == 0 ? "" : absl::StrFormat(" of group %016x", call.group);
  return absl::StrCat(OperationName(call.operation), " #", call.sequence, group, " (",
                      NameOf(call.dtype), Detail(call), ", count ", call.count, ", ", Way(call),
                      ", tiles of ", call.tile_bytes, " bytes)");
}

}  // namespace lockstep
