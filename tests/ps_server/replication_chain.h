// replication_chain.h: copies of a shard of `kCount` elements, whose messages wait in queues until
// a test moves them. Threads: one.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "ps_server/core/replication.h"
#include "tests/ps_server/reference.h"

namespace lockstep {

inline constexpr int64_t kCount = 4;

inline ShardOptions OptionsOf(PsMode mode, int32_t workers) {
  ShardOptions options;
  options.rules.mode = mode;
  options.rules.k = mode == PsMode::kKOfN ? workers - 1 : 0;
  const float divisor = AppliesAlone(mode) ? 1.0F : static_cast<float>(workers);
  options.rules.optimizer = {.learning_rate = 0.1F, .momentum = 0.5F, .divisor = divisor};
  options.range = WholeTensor(kCount);
  options.world_size = workers;
  options.staged_bytes_max = 1 << 20;
  options.sync_timeout_ms = 1'000;
  return options;
}

// Copies whose messages wait in queues until a test moves them.
struct Chain {
  ShardOptions options;
  bool aggregated = true;
  int64_t epoch = 1;
  std::vector<ShardCopy> copies = {};            // head first
  std::vector<std::deque<CopyEvent>> down = {};  // [i]: from copy i to copy i + 1
  std::vector<std::deque<CopyEvent>> up = {};    // [i]: from copy i + 1 to copy i
  std::vector<ShardReply> replies = {};
  int caught_up = 0;
  absl::Status fault = absl::OkStatus();

  ChainPlace Place(size_t i, size_t length, size_t members) const {
    ChainPlace place;
    place.epoch = epoch;
    place.head = i == 0;
    if (i > 0) place.predecessor = static_cast<int32_t>(i) - 1;
    if (i + 1 < length) place.successor = static_cast<int32_t>(i) + 1;
    place.joins = i >= members;
    place.successor_joins = i + 1 >= members;
    place.aggregated = aggregated;
    return place;
  }
  void Make(size_t length) {
    for (size_t i = 0; i < length; ++i) {
      copies.push_back(*ShardCopy::Create(options, Place(i, length, length)));
    }
    down.resize(length);
    up.resize(length);
    Connect();
  }
  // A new epoch of the copies there are, and `joiners` new ones behind.
  void NewEpoch(size_t joiners = 0) {
    ++epoch;
    const size_t members = copies.size();
    const size_t length = members + joiners;
    const auto workers = static_cast<size_t>(options.world_size);
    for (size_t i = 0; i < members; ++i) {
      Do(i, EpochEvent{Place(i, length, members), std::vector<bool>(workers, true)});
    }
    for (size_t i = members; i < length; ++i) {
      copies.push_back(*ShardCopy::Create(options, Place(i, length, members)));
    }
    down.assign(length, {});
    up.assign(length, {});
    Connect();
  }
  void Connect() {
    for (size_t i = 0; i + 1 < copies.size(); ++i) Reopen(i);
  }
  void Reopen(size_t i) {
    down[i].clear();
    up[i].clear();
    const ShardCopy& next = copies[i + 1];
    Do(i, SuccessorEvent{next.has_state(), next.version(), next.marks()});
  }
  void Do(size_t i, const CopyEvent& event) {
    CopyOutput output = copies[i].Handle(event, 0);
    fault = output.fault;
    if (output.state_to_successor != nullptr) {
      down[i].push_back(StateEvent{epoch, *output.state_to_successor});
    }
    for (const Replicate& message : output.to_successor) {
      down[i].push_back(ReplicateEvent{epoch, message});
    }
    if (output.to_predecessor.has_value()) up[i - 1].push_back(*output.to_predecessor);
    for (const ShardReply& reply : output.replies) replies.push_back(reply);
    caught_up += output.caught_up ? 1 : 0;
  }
  void MoveDown(size_t i) {
    while (!down[i].empty()) {
      const CopyEvent event = down[i].front();
      down[i].pop_front();
      Do(i + 1, event);
    }
  }
  void MoveUp(size_t i) {
    while (!up[i].empty()) {
      const CopyEvent event = up[i].front();
      up[i].pop_front();
      Do(i, event);
    }
  }
  void Settle() {
    for (int round = 0; round < 6; ++round) {
      for (size_t i = 0; i + 1 < copies.size(); ++i) MoveDown(i);
      for (size_t i = copies.size() - 1; i-- > 0;) MoveUp(i);
    }
  }

  void Attach(int32_t worker) { Do(0, ShardEvent{AttachEvent{worker, 1}}); }
  void Init() {
    const std::vector<float> values = StartValues(1, kCount);
    const std::array<Bytes, 1> pieces = {std::as_bytes(std::span(values))};
    Do(0, ShardEvent{InitEvent{{0, 1, 0, 0}, {0, kCount, pieces}}});
  }
  void Push(int32_t worker, int64_t step, int64_t base = 0) {
    const std::vector<float> values = Gradients(1, worker, step, kCount);
    const std::array<Bytes, 1> pieces = {std::as_bytes(std::span(values))};
    Do(0, ShardEvent{PushEvent{{worker, 1, step, 0}, {0, kCount, pieces}, base}});
  }
  void Pull(int32_t worker, int64_t step) { Do(0, ShardEvent{PullEvent{{worker, 1, step, 0}}}); }
  // Both workers have attached, the start values are everywhere.
  void Start() {
    for (int32_t w = 0; w < options.world_size; ++w) Attach(w);
    Init();
    Settle();
    replies.clear();
  }
  bool AllEqual() const {
    for (const ShardCopy& copy : copies) {
      if (!copy.has_state() || !(copy.Save() == copies[0].Save())) return false;
    }
    return true;
  }
};

inline Chain MakeChain(PsMode mode, size_t length, bool aggregated = true, int32_t workers = 2) {
  Chain chain{.options = OptionsOf(mode, workers), .aggregated = aggregated};
  chain.Make(length);
  chain.Start();
  return chain;
}

}  // namespace lockstep
