#include "ps_server/wire/grpc_frame.h"

#include <grpc/grpc.h>

#include <limits>

#include "ps_server/wire/frame.h"

namespace lockstep {

bool Unpack(const grpc::ByteBuffer& buffer, ReceivedBytes* received) {
  received->pieces.clear();
  if (!buffer.Dump(&received->slices).ok()) return false;
  for (const grpc::Slice& slice : received->slices) {
    received->pieces.push_back(std::as_bytes(std::span(slice.begin(), slice.size())));
  }
  return true;
}

grpc::ByteBuffer MakeBuffer(const PsFrame& header, const grpc::Slice& payload) {
  return MakeBuffer(header, std::vector<grpc::Slice>(payload.size() == 0 ? 0 : 1, payload));
}

grpc::ByteBuffer MakeBuffer(const PsFrame& header, const std::vector<grpc::Slice>& pieces) {
  int64_t bytes = 0;
  for (const grpc::Slice& piece : pieces) bytes += static_cast<int64_t>(piece.size());
  std::vector<grpc::Slice> slices = {grpc::Slice(EncodeHeader(header, bytes))};
  slices.insert(slices.end(), pieces.begin(), pieces.end());
  return {slices.data(), slices.size()};
}

gpr_timespec AfterNs(int64_t ns) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(ns, GPR_TIMESPAN));
}

std::vector<std::pair<std::string, int>> ChannelSettings(int64_t message_bytes_max) {
  constexpr int kNever = std::numeric_limits<int>::max();
  const auto bytes_max = static_cast<int>(message_bytes_max);
  return {
      {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, bytes_max},
      {GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, bytes_max},
      // No keepalive pings: a worker polls only while it synchronises, so it would answer them late
      // and lose its stream for computing too long. Whether a member lives is the coordinator's
      // question.
      {GRPC_ARG_KEEPALIVE_TIME_MS, kNever},
      {GRPC_ARG_ENABLE_HTTP_PROXY, 0},
      // A second server on the same port is an error, not a share of the connections.
      {GRPC_ARG_ALLOW_REUSEPORT, 0},
  };
}

}  // namespace lockstep
