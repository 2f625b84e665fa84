// frame.h: PsFrame on the wire without Protobuf copies of its payload.
// A frame's bytes are the Protobuf encoding of PsFrame with `payload` last, so that the header is
// built and parsed by Protobuf and the payload stays in the slices that gRPC sends and receives.
// Slices may be cut at any byte, within the header and within an element.
// Errors: InvalidArgument (not a PsFrame, or bytes after the payload). Pure, thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/core/staging.h"

namespace lockstep {

// Largest header of a frame with payload from a worker, or of one to it: nine varints, kind, tag
// and length of the payload. Between servers the first chunk also says whose pushes it is made of.
inline constexpr int64_t kFrameHeaderBytesMax = 128;

struct Frame {
  PsFrame header;              // payload left out
  std::vector<Bytes> payload;  // views of the slices it was decoded from
  int64_t payload_bytes = 0;
  std::shared_ptr<const void> owner = {};  // of the slices' bytes; null: they are valid now only
};

// Everything up to the payload's first byte. REQUIRES: header.payload() is empty.
std::string EncodeHeader(const PsFrame& header, int64_t payload_bytes);

absl::StatusOr<Frame> DecodeFrame(std::span<const Bytes> slices);

}  // namespace lockstep
