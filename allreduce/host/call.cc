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
  }
  return absl::StrCat("operation ", static_cast<int>(operation));
}

}  // namespace

uint64_t FingerprintOf(const CallDescription& call) {
  return Fingerprint64(std::as_bytes(std::span(&call, 1)));
}

std::string ToString(const CallDescription& call) {
  const bool reduces = call.operation == Operation::kAllReduce;
  return absl::StrCat(OperationName(call.operation), " #", call.sequence, " (", NameOf(call.dtype),
                      " ", reduces ? NameOf(call.op) : absl::StrCat("root ", call.root), ", count ",
                      call.count, ", ", NameOf(call.algorithm), ", ", call.channels,
                      call.channels == 1 ? " channel" : " channels", ", tiles of ", call.tile_bytes,
                      " bytes)");
}

}  // namespace lockstep
