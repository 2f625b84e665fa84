// brute_force.h: an independent judge of schedules, written apart from verify.cc: it runs a
// schedule in seeded random orders on counters, one for each (rank, chunk) contribution, so that no
// two sums look alike. Knows one lane a rank and messages of one chunk: what the ring is made of.
// Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "allreduce/schedule/schedule.h"

namespace lockstep {

class BruteForce {
 public:
  explicit BruteForce(const Schedule& schedule) : schedule_(schedule) {}

  // True when the all-reduce comes out right in each of `runs` random orders.
  bool RunsRight(int runs, uint32_t seed) const {
    std::mt19937 random(seed);
    for (int run = 0; run < runs; ++run) {
      if (!RunsRightOnce(&random)) return false;
    }
    return true;
  }

 private:
  using Counters = std::vector<int>;  // [rank * chunks + chunk]: how often that contribution is in
  using Wires = std::map<std::pair<int, int>, std::deque<Counters>>;  // (sender, receiver)

  bool RunsRightOnce(std::mt19937* random) const {
    const auto n = static_cast<size_t>(schedule_.world_size);
    const auto chunks = static_cast<size_t>(schedule_.chunks);
    std::vector<std::vector<Counters>> memory(n,
                                              std::vector<Counters>(chunks, Counters(n * chunks)));
    for (size_t r = 0; r < n; ++r) {
      for (size_t c = 0; c < chunks; ++c) memory[r][c][r * chunks + c] = 1;
    }
    std::vector<size_t> next(n, 0);
    Wires wires;
    while (true) {
      std::vector<size_t> ready;
      bool all_finished = true;
      for (size_t r = 0; r < n; ++r) {
        const std::vector<Move>& moves = schedule_.ranks[r][0].moves;
        if (next[r] == moves.size()) continue;
        all_finished = false;
        if (Ready(static_cast<int>(r), moves[next[r]], &wires)) ready.push_back(r);
      }
      if (all_finished) break;
      if (ready.empty()) return false;  // stands still
      const size_t r = ready[(*random)() % ready.size()];
      Do(static_cast<int>(r), schedule_.ranks[r][0].moves[next[r]++], &memory[r], &wires);
    }
    for (const auto& [connection, wire] : wires) {
      if (!wire.empty()) return false;  // a message is left
    }
    return Right(memory);
  }

  bool Ready(int rank, const Move& move, Wires* wires) const {
    if (move.recv_from != kNone && (*wires)[{move.recv_from, rank}].empty()) return false;
    return move.send_to == kNone ||
           static_cast<int>((*wires)[{rank, move.send_to}].size()) < schedule_.slots;
  }

  void Do(int rank, const Move& move, std::vector<Counters>* memory, Wires* wires) const {
    Counters value(static_cast<size_t>(schedule_.world_size * schedule_.chunks), 0);
    if (move.recv_from != kNone) {
      std::deque<Counters>& wire = (*wires)[{move.recv_from, rank}];
      value = wire.front();
      wire.pop_front();
    }
    if (move.in != kNone) {
      const Counters& in = (*memory)[static_cast<size_t>(move.in)];
      for (size_t i = 0; i < value.size(); ++i) value[i] += in[i];
    }
    if (move.out != kNone) (*memory)[static_cast<size_t>(move.out)] = value;
    if (move.send_to != kNone) (*wires)[{rank, move.send_to}].push_back(value);
  }

  bool Right(const std::vector<std::vector<Counters>>& memory) const {
    const auto n = static_cast<size_t>(schedule_.world_size);
    const auto chunks = static_cast<size_t>(schedule_.chunks);
    for (size_t chunk = 0; chunk < chunks; ++chunk) {
      Counters expected(n * chunks, 0);
      for (size_t r = 0; r < n; ++r) expected[r * chunks + chunk] = 1;
      for (const auto& rank : memory) {
        if (rank[chunk] != expected) return false;
      }
    }
    return true;
  }

  const Schedule& schedule_;
};

}  // namespace lockstep
