#include "allreduce/host/call.h"

#include "absl/strings/str_cat.h"
#include "base/fingerprint.h"

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
  }
  return absl::StrCat("operation ", static_cast<int>(operation));
}

// What the operation has beside its element type: " sum", " root 0" or nothing.
std::string Detail(const CallDescription& call) {
  switch (call.operation) {
    case Operation::kAllReduce:
      return absl::StrCat(" ", NameOf(call.op));
    case Operation::kBroadcast:
      return absl::StrCat(" root ", call.root);
    case Operation::kPingPong:
      return "";
  }
  return "";
}

}  // namespace

bool TakesPart(const CallDescription& call, int rank) {
  return call.operation != Operation::kPingPong || rank < 2;
}

uint64_t FingerprintOf(const CallDescription& call) {
  return Fingerprint64(std::as_bytes(std::span(&call, 1)));
}

std::string ToString(const CallDescription& call) {
  const std::string servers =
      call.servers == 0
          ? ""
          : absl::StrCat(call.servers, call.servers == 1 ? " server, " : " servers, ");
  return absl::StrCat(OperationName(call.operation), " #", call.sequence, " (", NameOf(call.dtype),
                      Detail(call), ", count ", call.count, ", ", NameOf(call.algorithm), ", ",
                      servers, call.channels, call.channels == 1 ? " channel" : " channels",
                      ", tiles of ", call.tile_bytes, " bytes)");
}

}  // namespace lockstep
