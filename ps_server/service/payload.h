// payload.h: what a server sends beside a frame's header, and how it is cut into chunks.
// The bytes are shared with whoever else still needs them: a version's parameters go to n workers
// and are converted to the wire dtype once. Units: bytes, unless said. Threads: one at a time; a
// Payload's bytes are never written to again, so it may be let go on any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/numeric/dtype.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/core/rows.h"
#include "ps_server/core/shard_state.h"
#include "ps_server/core/staging.h"

namespace lockstep {

struct Payload {
  std::shared_ptr<const void> owner;  // shared: of `parts`, with other payloads and with the shard
  std::vector<Bytes> parts;           // one after the other
  int64_t bytes = 0;
};
Payload PayloadOf(std::string bytes);
Payload PayloadOf(const SharedParameters& values);
// Its encoding; header and checksum are made here, which reads the whole state once.
Payload PayloadOf(std::shared_ptr<const ShardState> state);

// These rows of a table in the shard's parameters, in the wire dtype.
Payload PayloadOf(const SharedParameters& values, const TableRows& table,
                  std::span<const int64_t> rows, Dtype wire);

// Parameters in the wire dtype. The newest version's are kept, older ones while anybody sends them.
class WireVersions {
 public:
  explicit WireVersions(Dtype dtype) : dtype_(dtype) {}
  Payload Of(int64_t version, const SharedParameters& parameters);
  // Of a new group, in which a version number may stand for other values.
  void Forget();

 private:
  using Converted = std::vector<std::byte>;
  Dtype dtype_;
  std::shared_ptr<const Converted> newest_;
  std::map<int64_t, std::weak_ptr<const Converted>> versions_;
};

// One message to a stream: a header, and perhaps a payload that goes in chunks of
// limits.chunk_bytes.
struct Outgoing {
  PsFrame header;  // `offset` is filled in for each chunk; `replicated` goes with the first
  Payload payload = {};
  int64_t unit_bytes = 0;  // what `offset` and `total` count; 0: one frame, whatever its size
  bool last = false;       // the stream ends after it
};

struct Chunk {
  PsFrame header;
  std::vector<Bytes> pieces;
  std::shared_ptr<const void> owner;  // of `pieces`
  bool complete = false;              // the last one of its message
};
// The chunk from `sent_bytes` of the payload on, which is moved behind it.
Chunk NextChunk(const Outgoing& message, int64_t chunk_bytes, int64_t* sent_bytes);

}  // namespace lockstep
