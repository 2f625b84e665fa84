// brute_force.h: an independent judge of schedules, written apart from verify.cc: it runs a
// schedule in seeded random orders of its lanes on numbers. Each (rank, chunk) contribution is a
// random number of 64 bits and sums are modulo 2^64, so no two sums look alike (but by a chance of
// 2^-64); a place holds another such number before anything is written to it, which belongs into no
// sum. Where ranks should meet, each rank in turn comes late: it makes no move before all others
// stand still, and then none of them may be through. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "allreduce/schedule/schedule.h"
#include "allreduce/schedule/verify.h"

namespace lockstep {

class BruteForce {
 public:
  BruteForce(const Schedule& schedule, const Goal& goal)
      : schedule_(schedule),
        goal_(goal),
        chunks_(static_cast<size_t>(schedule.chunks)),
        cells_(chunks_ + static_cast<size_t>(schedule.scratch)) {
    for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      for (size_t lane = 0; lane < schedule.ranks[rank].size(); ++lane) {
        lanes_.emplace_back(rank, lane);
      }
    }
    std::mt19937_64 random(12345);
    start_.assign(schedule.ranks.size(), std::vector<uint64_t>(cells_));
    for (std::vector<uint64_t>& cells : start_) {
      for (uint64_t& cell : cells) cell = random();
    }
  }

  // True when the goal is reached in each of `runs` random orders.
  bool RunsRight(int runs, uint32_t seed) const {
    if (!InRange()) return false;
    std::mt19937 random(seed);
    for (int run = 0; run < runs; ++run) {
      if (!RunsRightOnce(&random)) return false;
    }
    for (size_t late = 0; goal_.meets && late < schedule_.ranks.size(); ++late) {
      if (!OthersWaitFor(late, &random)) return false;
    }
    return true;
  }

 private:
  using Message = std::vector<uint64_t>;
  struct State {
    std::vector<std::vector<uint64_t>> memory;                   // [rank][chunk, then scratch]
    std::vector<std::vector<size_t>> next;                       // [rank][lane]: move
    std::map<std::array<size_t, 3>, std::deque<Message>> wires;  // sender, receiver, channel
    bool sizes_match = true;
  };
  using LaneName = std::pair<size_t, size_t>;  // rank, lane

  bool InRange() const {
    for (const LaneName& lane : lanes_) {
      for (const Move& move : At(lane).moves) {
        if (move.count < 1) return false;
        const auto count = static_cast<size_t>(move.count);
        for (const int32_t first : {move.in, move.out}) {
          if (first == kNone) continue;
          const size_t begin = static_cast<size_t>(first);
          if (begin + count > cells_ || (begin < chunks_ && begin + count > chunks_)) return false;
        }
      }
    }
    return true;
  }

  State Start() const {
    State state{start_, {}, {}};
    for (const auto& lanes : schedule_.ranks) state.next.emplace_back(lanes.size(), 0);
    return state;
  }

  // Makes moves in random order until nothing moves; of all ranks but `never`.
  void RunOn(State* state, std::mt19937* random, size_t never) const {
    for (bool moved = true; moved;) {
      moved = false;
      const size_t first = lanes_.empty() ? 0 : (*random)() % lanes_.size();
      for (size_t i = 0; i < lanes_.size() && !moved; ++i) {
        const LaneName& lane = lanes_[(first + i) % lanes_.size()];
        moved = lane.first != never && !Finished(lane, *state) && Ready(lane, state);
        if (moved) Do(lane, state);
      }
    }
  }

  bool RunsRightOnce(std::mt19937* random) const {
    State state = Start();
    RunOn(&state, random, schedule_.ranks.size());
    for (const LaneName& lane : lanes_) {
      if (!Finished(lane, state)) return false;  // stands still
    }
    for (const auto& [connection, wire] : state.wires) {
      if (!wire.empty()) return false;  // a message is left
    }
    return state.sizes_match && Right(state);
  }

  bool OthersWaitFor(size_t late, std::mt19937* random) const {
    State state = Start();
    RunOn(&state, random, late);
    for (size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      bool through = true;
      for (size_t lane = 0; lane < schedule_.ranks[rank].size(); ++lane) {
        through = through && Finished({rank, lane}, state);
      }
      if (rank != late && through) return false;
    }
    return true;
  }

  const Lane& At(const LaneName& lane) const { return schedule_.ranks[lane.first][lane.second]; }

  bool Finished(const LaneName& lane, const State& state) const {
    return state.next[lane.first][lane.second] == At(lane).moves.size();
  }

  bool Ready(const LaneName& name, State* state) const {
    const auto [rank, lane] = name;
    const auto channel = static_cast<size_t>(At(name).channel);
    const Move& move = At(name).moves[state->next[rank][lane]];
    if (move.wait_lane != kNone && state->next[rank][static_cast<size_t>(move.wait_lane)] <=
                                       static_cast<size_t>(move.wait_move)) {
      return false;
    }
    if (move.recv_from != kNone &&
        state->wires[{static_cast<size_t>(move.recv_from), rank, channel}].empty()) {
      return false;
    }
    return move.send_to == kNone ||
           state->wires[{rank, static_cast<size_t>(move.send_to), channel}].size() <
               static_cast<size_t>(schedule_.slots);
  }

  void Do(const LaneName& name, State* state) const {
    const auto [rank, lane] = name;
    const auto channel = static_cast<size_t>(At(name).channel);
    const Move& move = At(name).moves[state->next[rank][lane]++];
    const auto count = static_cast<size_t>(move.count);
    std::vector<uint64_t>& memory = state->memory[rank];
    Message value(count, 0);
    if (move.recv_from != kNone) {
      std::deque<Message>& wire =
          state->wires[{static_cast<size_t>(move.recv_from), rank, channel}];
      value = std::move(wire.front());
      wire.pop_front();
      state->sizes_match = state->sizes_match && value.size() == count;
      value.resize(count);
    }
    for (size_t i = 0; i < count; ++i) {
      if (move.in != kNone) value[i] += memory[static_cast<size_t>(move.in) + i];
      if (move.fold) value[i] += memory[static_cast<size_t>(move.out) + i];
    }
    for (size_t i = 0; i < count && move.out != kNone; ++i) {
      memory[static_cast<size_t>(move.out) + i] = value[i];
    }
    if (move.send_to != kNone) {
      state->wires[{rank, static_cast<size_t>(move.send_to), channel}].push_back(std::move(value));
    }
  }

  // What a rank doesn't hold at the start is in no sum that is expected.
  bool Right(const State& state) const {
    const size_t n = schedule_.ranks.size();
    for (size_t chunk = 0; chunk < chunks_; ++chunk) {
      uint64_t expected = 0;
      for (size_t r = 0; r < n; ++r) {
        if (goal_.holds[r][chunk] != 0) expected += start_[r][chunk];
      }
      for (size_t r = 0; r < n; ++r) {
        if (goal_.wants[r][chunk] != 0 && state.memory[r][chunk] != expected) return false;
      }
    }
    return true;
  }

  const Schedule& schedule_;
  const Goal& goal_;
  const size_t chunks_;
  const size_t cells_;
  std::vector<LaneName> lanes_;
  std::vector<std::vector<uint64_t>> start_;  // [rank][chunk, then scratch]
};

}  // namespace lockstep
