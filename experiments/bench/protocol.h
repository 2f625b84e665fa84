// protocol.h: what `lockstep bench` and its rank processes tell each other, a line each, over one
// unix socket a rank. A rank says "hello RANK ADDRESS" (where its peers reach it, opaque), hears
// "start ADDRESS..." of all ranks, and answers "ready WORDS" (its library's version). From then on
// it sleeps in a read until its turn: "turn ..." is answered by "done ..."; an error at any point
// is "error CODE TEXT". The end of the stream ends the rank. Errors: InvalidArgument for a line
// that is none of these. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/numeric/dtype.h"

namespace lockstep {

// One contestant's operations on one size.
struct Turn {
  std::string algorithm;
  int64_t count = 0;  // elements
  Dtype dtype = Dtype::kF32;
  ReduceOp op = ReduceOp::kSum;
  int warmup = 1;
  int operations = 1;  // timed
  bool check = false;  // one more, on fresh data, of which every element is compared
};

// One rank's part of it.
struct TurnReport {
  std::vector<int64_t> times_ns;  // [operation]
  int64_t cpu_ns = 0;             // of all threads of the process, in the timed operations
  double sent_bytes = -1;         // an operation; below 0: nobody knows
  double sent_messages = -1;
  double rows = 0;  // of tables, that a server took in an operation
  bool correct = true;
  std::string congestion;  // of the process's TCP connections, e.g. "cubic"; empty: it has none
  std::string choice;      // which algorithm ran, and why, in the engine's words
};

std::string ToLine(const Turn& turn);
absl::StatusOr<Turn> ParseTurn(const std::string& line);
std::string ToLine(const TurnReport& report);
absl::StatusOr<TurnReport> ParseReport(const std::string& line);
// An error line becomes its status again, with whom it blames; any other line is OK.
std::string ToLine(const absl::Status& error);
absl::Status ErrorOf(const std::string& line);

// What a message costs on the links of our ranks (base/link_cost.h), as rank 0's words; and how
// long all ranks together need for an all-gather without data and for one of crowd_bytes, where
// sharing cores shows (schedule/work.h).
struct LinkWords {
  double alpha_ns = 0;
  double beta_ns_per_byte = 0;
  double crowd_empty_ns = 0;
  double crowd_large_ns = 0;
  int64_t crowd_bytes = 1;
};
std::string ToLine(const LinkWords& words);
std::optional<LinkWords> ParseLink(const std::string& text);

std::optional<Dtype> DtypeNamed(const std::string& name);
std::optional<ReduceOp> ReduceOpNamed(const std::string& name);

}  // namespace lockstep
