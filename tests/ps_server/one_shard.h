// one_shard.h: a shard driven by hand, one event at a time: whole pushes of known gradients, pulls,
// new groups, restarts. For tests of its modes.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "ps_server/core/shard.h"
#include "tests/ps_server/reference.h"

namespace lockstep {

inline ShardOptions OneShardOptions(const PsRules& rules, int32_t workers, int64_t count) {
  return {.rules = rules,
          .shard = 0,
          .range = WholeTensor(count),
          .layout = 77,
          .world_size = workers,
          .staged_bytes_max = 1 << 20,
          .sync_timeout_ms = 400};
}

class OneShard {
 public:
  // With its workers attached and its start values.
  OneShard(const ShardOptions& options, uint64_t seed)
      : options_(options), seed_(seed), shard_(*Shard::Create(options)) {
    for (int32_t w = 0; w < options.world_size; ++w) Attach(w);
    const std::vector<float> values = StartValues(seed, count());
    const std::vector<Bytes> pieces = {std::as_bytes(std::span(values))};
    Handle(InitEvent{{0, 1, 0, 0}, {0, count(), pieces}});
  }
  // Begins anew with a state, in a new group that nobody has joined yet.
  void Become(const ShardState& state, const std::vector<bool>& present) {
    shard_ = *Shard::Restore(options_, state);
    EXPECT_TRUE(Handle(RegroupEvent{present}).refusals.empty());
  }

  ShardOutput Attach(int32_t worker, int64_t incarnation = 1) {
    return Handle(AttachEvent{worker, incarnation});
  }
  // All elements, or [begin, end). `base`: as a worker says in K_OF_N.
  ShardOutput Push(int32_t worker, int64_t step, int64_t base = 0, int64_t begin = 0,
                   int64_t end = -1, int64_t incarnation = 1) {
    const std::vector<float> gradients = Gradients(seed_, worker, step, count());
    const auto first = static_cast<size_t>(begin);
    const auto size = static_cast<size_t>((end < 0 ? count() : end) - begin);
    const std::vector<Bytes> pieces = {std::as_bytes(std::span(gradients).subspan(first, size))};
    return Handle(PushEvent{{worker, incarnation, step, 0}, {begin, count(), pieces}, base});
  }
  ShardOutput Pull(int32_t worker, int64_t step, int64_t incarnation = 1) {
    return Handle(PullEvent{{worker, incarnation, step, 0}});
  }
  // Everybody attaches again.
  void Regroup(const std::vector<bool>& present) {
    EXPECT_TRUE(Handle(RegroupEvent{present}).refusals.empty());
    for (size_t r = 0; r < present.size(); ++r) {
      if (present[r]) Attach(static_cast<int32_t>(r));
    }
  }
  ShardOutput Tick() { return Handle(TickEvent{}); }
  ShardOutput Handle(const ShardEvent& event) { return shard_.Handle(event, now_ns); }

  int64_t count() const { return options_.range.count; }
  const ShardOptions& options() const { return options_; }
  Shard& shard() { return shard_; }
  const Shard& shard() const { return shard_; }

  int64_t now_ns = 0;

 private:
  const ShardOptions options_;
  const uint64_t seed_;
  Shard shard_;
};

inline absl::Status RefusalOf(const ShardOutput& output) {
  return output.refusals.empty() ? absl::OkStatus() : output.refusals[0].status;
}

// The updates that a shard made, done again from the start values: each a sum in rank order,
// divided by `divisor`, or by how many pushes it has.
struct Replayed {
  std::vector<std::vector<float>> versions;  // [version]
};
inline Replayed Replay(uint64_t seed, const std::vector<ShardUpdate>& updates, int64_t count,
                       OptimizerOptions optimizer, bool mean, int32_t k = 0) {
  Replayed replayed;
  replayed.versions.push_back(StartValues(seed, count));
  std::vector<float> state(static_cast<size_t>(count * StateSlots(optimizer.kind)), 0.0F);
  for (const ShardUpdate& update : updates) {
    std::vector<std::vector<float>> gradients;
    for (const UpdateId& id : update.ids) {
      gradients.push_back(Gradients(seed, id.worker, id.step, count));
    }
    const bool late_alone = update.late.size() == update.ids.size() && !update.late.empty();
    if (mean)
      optimizer.divisor = late_alone ? static_cast<float>(k) : static_cast<float>(gradients.size());
    std::vector<float> parameters = replayed.versions.back();
    OptimizerStep(optimizer, update.version, RankOrderSum(gradients).data(), state.data(), count,
                  parameters.data(), parameters.data(), count);
    replayed.versions.push_back(std::move(parameters));
  }
  return replayed;
}

}  // namespace lockstep
