// fit.h: what every generator asks of its spec before it makes anything: at least one rank and one
// channel, no more channels than waits can name, and sizes that a Move and a Shape can hold.
// Errors: InvalidArgument for the former, ResourceExhausted with need and limit for the latter.
// Pure.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "allreduce/schedule/algorithm.h"
#include "allreduce/schedule/schedule.h"

namespace lockstep {

// `generator` begins the message.
absl::Status CheckWorld(const char* generator, int32_t world_size, int32_t channels,
                        int32_t channels_max = kChannelsMax);

absl::Status CheckRoot(const char* generator, int32_t root, int32_t world_size);

// Of generators that have all_reduce and its two halves.
absl::Status CheckHalves(const char* generator, Collective collective);

// Chunks that a pipeline cuts each channel into: at least one, and all of them a Shape can hold.
absl::Status CheckChunks(const char* generator, int32_t channels, int32_t chunks_per_channel);

// `chunks` and scratch of a rank in all, `count` those of its longest message.
absl::Status CheckFits(const char* generator, int64_t chunks, int64_t count = 1);

}  // namespace lockstep
