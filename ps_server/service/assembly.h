// assembly.h: what a predecessor sends about one shard, put together from its chunks: REPLICATE and
// STATE frames, in order, one message after the other. Sizes are checked against the shard before
// anything is allocated. Errors: InvalidArgument (a chunk out of turn, or of another size), and
// those of DecodeReplicate and DecodeState. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "ps_server/core/replication.h"
#include "ps_server/core/shard_state.h"
#include "ps_server/wire/frame.h"

namespace lockstep {

class Assembly {
 public:
  // Of a shard with `elements`, of which a state has at most `state_bytes_max`.
  Assembly(int64_t elements, int64_t state_bytes_max)
      : elements_(elements), state_bytes_max_(state_bytes_max) {}

  // The message, when this chunk was its last one.
  absl::StatusOr<std::optional<Replicate>> AddReplicate(const Frame& frame);
  absl::StatusOr<std::optional<ShardState>> AddState(const Frame& frame);
  // Of the state under way.
  int64_t taken_bytes() const { return taken_bytes_; }
  int64_t total_bytes() const { return total_bytes_; }

 private:
  // Puts the payload behind what is here. `unit_bytes`: what offset and total count.
  absl::Status Append(const Frame& frame, int64_t unit_bytes, std::byte* to);

  int64_t elements_;
  int64_t state_bytes_max_;
  int64_t taken_bytes_ = 0;
  int64_t total_bytes_ = 0;
  std::optional<Replicate> message_;
  std::shared_ptr<std::vector<float>> values_;
  std::vector<std::byte> state_;
};

}  // namespace lockstep
