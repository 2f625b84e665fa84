// plain_run.h: what a schedule leaves in the memory of every rank, the plainest way: whole chunks,
// no tiles, no slots, no link; one lane after the other as far as it gets. A reference for
// executors, written apart from them; only the fold of two arrays is shared. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "allreduce/schedule/schedule.h"
#include "base/check.h"
#include "base/numeric/fold.h"

namespace lockstep {

class PlainRun {
 public:
  using Bytes = std::vector<std::byte>;

  // `data` is [rank]: `count` elements, replaced by what the schedule leaves.
  PlainRun(const Schedule& schedule, int64_t count, Dtype dtype, ReduceOp op)
      : schedule_(schedule), count_(count), dtype_(dtype), op_(op) {}

  void Run(std::vector<Bytes>* data) {
    Cut(*data);
    next_.clear();
    for (const std::vector<Lane>& lanes : schedule_.ranks) next_.emplace_back(lanes.size(), 0);
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t rank = 0; rank < next_.size(); ++rank) {
        for (size_t lane = 0; lane < next_[rank].size(); ++lane) {
          while (Step(rank, lane)) moved = true;
        }
      }
    }
    for (size_t rank = 0; rank < next_.size(); ++rank) {
      for (size_t lane = 0; lane < next_[rank].size(); ++lane) {
        CHECK_EQ(next_[rank][lane], schedule_.ranks[rank][lane].moves.size()) << "stands still";
      }
      Join(memory_[rank], &(*data)[rank]);
    }
  }

  // The elements of a data chunk: the first count % chunks have one more.
  int64_t First(int64_t chunk) const {
    return chunk * (count_ / schedule_.chunks) + std::min(chunk, count_ % schedule_.chunks);
  }

 private:
  using Value = std::vector<Bytes>;  // [chunk of the move]

  void Cut(const std::vector<Bytes>& data) {
    memory_.assign(data.size(), {});
    const int64_t size = SizeOf(dtype_);
    for (size_t rank = 0; rank < data.size(); ++rank) {
      for (int32_t chunk = 0; chunk < schedule_.chunks; ++chunk) {
        memory_[rank].emplace_back(data[rank].begin() + First(chunk) * size,
                                   data[rank].begin() + First(chunk + 1) * size);
      }
      for (int32_t i = 0; i < schedule_.scratch; ++i) {
        memory_[rank].emplace_back(memory_[rank][static_cast<size_t>(i % schedule_.chunks)].size());
      }
    }
  }

  void Join(const Value& chunks, Bytes* data) const {
    data->clear();
    for (size_t chunk = 0; chunk < static_cast<size_t>(schedule_.chunks); ++chunk) {
      data->insert(data->end(), chunks[chunk].begin(), chunks[chunk].end());
    }
  }

  void FoldChunks(const Value& source, Value* target) const {
    for (size_t i = 0; i < source.size(); ++i) {
      CHECK_EQ(source[i].size(), (*target)[i].size());
      const int64_t elements = static_cast<int64_t>(source[i].size()) / SizeOf(dtype_);
      Fold(dtype_, op_, source[i].data(), (*target)[i].data(), elements);
    }
  }

  Value Read(size_t rank, int32_t first, int32_t count) const {
    const auto begin = memory_[rank].begin() + first;
    return {begin, begin + count};
  }

  bool Step(size_t rank, size_t lane_index) {
    const Lane& lane = schedule_.ranks[rank][lane_index];
    size_t& next = next_[rank][lane_index];
    if (next == lane.moves.size()) return false;
    const Move& move = lane.moves[next];
    if (move.wait_lane != kNone &&
        next_[rank][static_cast<size_t>(move.wait_lane)] <= static_cast<size_t>(move.wait_move)) {
      return false;
    }
    const auto self = static_cast<int32_t>(rank);
    Value value;
    if (move.recv_from != kNone) {
      std::deque<Value>& wire = wires_[{move.recv_from, self, lane.channel}];
      if (wire.empty()) return false;
      value = wire.front();
      wire.pop_front();
      if (move.in != kNone) FoldChunks(Read(rank, move.in, move.count), &value);
    } else {
      value = Read(rank, move.in, move.count);
    }
    if (move.fold) FoldChunks(Read(rank, move.out, move.count), &value);
    if (move.out != kNone) std::copy(value.begin(), value.end(), memory_[rank].begin() + move.out);
    if (move.send_to != kNone) wires_[{self, move.send_to, lane.channel}].push_back(value);
    ++next;
    return true;
  }

  const Schedule& schedule_;
  const int64_t count_;
  const Dtype dtype_;
  const ReduceOp op_;
  std::vector<Value> memory_;                                  // [rank][chunk, then scratch]
  std::vector<std::vector<size_t>> next_;                      // [rank][lane]: move
  std::map<std::array<int32_t, 3>, std::deque<Value>> wires_;  // sender, receiver, channel
};

}  // namespace lockstep
