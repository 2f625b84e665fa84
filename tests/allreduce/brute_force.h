// brute_force.h: an independent judge of schedules, written apart from verify.cc: it runs a
// schedule in seeded random orders of its lanes on counters, one for each (rank, chunk)
// contribution, so that no two sums look alike, and one for what a place holds before anything is
// written to it, which belongs into no sum. Knows messages of one chunk. Pure.
#pragma once

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
  BruteForce(const Schedule& schedule, const Goal& goal) : schedule_(schedule), goal_(goal) {
    for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      for (size_t lane = 0; lane < schedule.ranks[rank].size(); ++lane) {
        lanes_.emplace_back(rank, lane);
      }
    }
  }

  // True when the goal is reached in each of `runs` random orders.
  bool RunsRight(int runs, uint32_t seed) const {
    std::mt19937 random(seed);
    for (int run = 0; run < runs; ++run) {
      if (!RunsRightOnce(&random)) return false;
    }
    return true;
  }

 private:
  // [rank * chunks + chunk]: how often that contribution is in; the last one: garbage.
  using Counters = std::vector<int>;
  struct State {
    std::vector<std::vector<Counters>> memory;                    // [rank][chunk, then scratch]
    std::vector<std::vector<size_t>> next;                        // [rank][lane]: move
    std::map<std::array<size_t, 3>, std::deque<Counters>> wires;  // sender, receiver, channel
  };
  using LaneName = std::pair<size_t, size_t>;  // rank, lane

  bool RunsRightOnce(std::mt19937* random) const {
    State state = Start();
    while (true) {
      const size_t first = (*random)() % lanes_.size();
      bool all_finished = true;
      bool moved = false;
      for (size_t i = 0; i < lanes_.size() && !moved; ++i) {
        const LaneName& lane = lanes_[(first + i) % lanes_.size()];
        if (Finished(lane, state)) continue;
        all_finished = false;
        moved = Ready(lane, &state);
        if (moved) Do(lane, &state);
      }
      if (all_finished) break;
      if (!moved) return false;  // stands still
    }
    for (const auto& [connection, wire] : state.wires) {
      if (!wire.empty()) return false;  // a message is left
    }
    return Right(state);
  }

  State Start() const {
    const auto chunks = static_cast<size_t>(schedule_.chunks);
    const size_t cells = chunks + static_cast<size_t>(schedule_.scratch);
    const size_t n = schedule_.ranks.size();
    State state;
    Counters garbage(n * chunks + 1, 0);
    garbage.back() = 1;
    state.memory.assign(n, std::vector<Counters>(cells, garbage));
    for (size_t r = 0; r < n; ++r) {
      state.next.emplace_back(schedule_.ranks[r].size(), 0);
      for (size_t c = 0; c < chunks; ++c) {
        if (goal_.holds[r][c] == 0) continue;
        std::swap(state.memory[r][c][r * chunks + c], state.memory[r][c].back());
      }
    }
    return state;
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
    std::vector<Counters>& memory = state->memory[rank];
    Counters value(memory.front().size(), 0);
    if (move.recv_from != kNone) {
      std::deque<Counters>& wire =
          state->wires[{static_cast<size_t>(move.recv_from), rank, channel}];
      value = wire.front();
      wire.pop_front();
    }
    const auto add = [&](int32_t chunk) {
      const Counters& more = memory[static_cast<size_t>(chunk)];
      for (size_t i = 0; i < value.size(); ++i) value[i] += more[i];
    };
    if (move.in != kNone) add(move.in);
    if (move.fold) add(move.out);
    if (move.out != kNone) memory[static_cast<size_t>(move.out)] = value;
    if (move.send_to != kNone) {
      state->wires[{rank, static_cast<size_t>(move.send_to), channel}].push_back(value);
    }
  }

  bool Right(const State& state) const {
    const size_t n = schedule_.ranks.size();
    const auto chunks = static_cast<size_t>(schedule_.chunks);
    for (size_t chunk = 0; chunk < chunks; ++chunk) {
      Counters expected(n * chunks + 1, 0);
      for (size_t r = 0; r < n; ++r) expected[r * chunks + chunk] = goal_.holds[r][chunk];
      for (size_t r = 0; r < n; ++r) {
        if (goal_.wants[r][chunk] != 0 && state.memory[r][chunk] != expected) return false;
      }
    }
    return true;
  }

  const Schedule& schedule_;
  const Goal& goal_;
  std::vector<LaneName> lanes_;
};

}  // namespace lockstep
