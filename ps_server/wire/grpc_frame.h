// grpc_frame.h: frames as gRPC byte buffers, and the channel settings that both ends share.
// Included by the few files that speak gRPC. Thread-safe: no shared state.
#pragma once

#include <grpc/support/time.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "proto/parameter_server.pb.h"
#include "ps_server/core/staging.h"

namespace lockstep {

inline constexpr char kExchangeMethod[] = "/lockstep.ParameterServer/Exchange";
inline constexpr char kTokenMetadata[] = "lockstep-token";

// A received message: the slices keep the bytes that `pieces` views.
struct ReceivedBytes {
  std::vector<grpc::Slice> slices;
  std::vector<Bytes> pieces;
};
// False when gRPC cannot unpack the message.
bool Unpack(const grpc::ByteBuffer& buffer, ReceivedBytes* received);

// `header` (payload empty) and, without a copy, `payload`, or all of its pieces one after the
// other.
grpc::ByteBuffer MakeBuffer(const PsFrame& header, const grpc::Slice& payload);
grpc::ByteBuffer MakeBuffer(const PsFrame& header, const std::vector<grpc::Slice>& pieces);

// A moment so far from now, as gRPC's waits take it.
gpr_timespec AfterNs(int64_t ns);

// Integer channel arguments of both ends.
std::vector<std::pair<std::string, int>> ChannelSettings(int64_t message_bytes_max);

}  // namespace lockstep
