// cell.h: all that was measured of one contestant at one size, and what it comes to: times, the two
// bandwidths of nccl-tests, processor time, bytes by role. Pure. Units in the names; 1 GB = 10^9
// bytes. algbw = bytes / p50; busbw = algbw x 2(n-1)/n: a ring at wire speed has busbw = wire speed
// for every n.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/bench/protocol.h"
#include "proto/bench.pb.h"

namespace lockstep {

struct Cell {
  std::string engine;
  std::string link;
  std::string algorithm;
  std::string setting;
  int channels = 1;  // ours: connections a pair
  std::string version;
  int ranks = 1;
  int servers = 0;
  int64_t bytes = 0;
  Dtype dtype = Dtype::kF32;
  ReduceOp op = ReduceOp::kSum;

  std::vector<double> samples_us;  // every timed operation: its mean over ranks
  std::vector<double> rounds_us;   // [round]: the median of its operations
  double cpu_ns = 0;
  int64_t operations = 0;
  bool checked = false;
  bool correct = true;
  std::string congestion;
  std::string choice;
  std::vector<BenchSent> sent;

  double p50_us() const;
  // "ring", "ring, 2 connections"
  std::string Label() const;
};

// busbw / algbw of an all-reduce; nullopt for one rank, where nothing need move.
std::optional<double> BusFactor(int ranks);

// One turn's reports, [rank]; as a round of its own. The check's outcome is kept, whatever round.
void AddRound(const std::vector<TurnReport>& reports, Cell* cell);
void AddCheck(const std::vector<TurnReport>& reports, Cell* cell);

// Ranks that sent the same amounts, together; those from `ranks` on are servers.
std::vector<BenchSent> SentByRole(const std::vector<TurnReport>& reports, int ranks, int servers);

// REQUIRES: at least one round.
BenchRow RowOf(const Cell& cell);

}  // namespace lockstep
