// bytes.h: what every way to synchronise must put on the links, by formula and as counted.
// Units: bytes per member and step. S = gradient bytes of the whole model as this way encodes them,
// n workers, s servers. Collectives: what the moves of their schedule add up to
// (allreduce/schedule/load.h): naive (n-1) S; ring, direct and halving-doubling 2(n-1)/n S; a tree
// 2(n-1)/n S in the mean and S for each neighbour of the busiest rank. Parameter servers: every
// worker sends S and receives S, a server n S / s of both in the mean; the busiest link is that of
// a host (host_links.h).
// Counted: every byte handed to the socket or to gRPC in measured steps, our headers included,
// HTTP/2 and TCP headers not; start-up, call check, start values and probe are apart (`set_up`).
// AUTO has no formula: each bucket's size chooses. Errors: InvalidArgument for a mode or algorithm
// that does not exist or not for these numbers. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/generate.h"
#include "experiments/analyse/host_links.h"
#include "experiments/analyse/run_record.h"

namespace lockstep {

struct ByteFormulaInput {
  std::string mode;            // as VariantResult.mode
  std::string algorithm = {};  // as VariantResult.algorithm
  int workers = 0;
  int servers = 0;
  double gradient_bytes = 0;                // all elements in the wire type
  int element_bytes = 4;                    // of the wire type
  bool exact = false;                       // reduction_order EXACT
  Placement placement = Placement::kSpare;  // of ps_exchange's servers
  int group_size = 0;                       // hierarchical
  ServerHosts hosts = {};                   // of parameter servers
  std::vector<double> shares = {};          // [server], of S; empty: equal
};
// S of this way. EXACT makes a collective send integers of 8 bytes and 4 more for each block of
// 1,024 elements; to a parameter server gradients go as they are.
double EncodedBytes(const ByteFormulaInput& input);

// The collective that this way runs. REQUIRES: input.mode is all_reduce. InvalidArgument: no
// algorithm has the name.
absl::StatusOr<ScheduleSpec> ScheduleSpecOf(const ByteFormulaInput& input);

struct ByteFormula {
  double worker = 0;             // sent by one worker, mean over them; received: the same
  std::string worker_text;       // "2(n-1)/n S"
  std::optional<double> server;  // into one server, and out of it
  std::string server_text;       // "n S / s"
  double busiest = 0;            // over the link that carries most, one direction
  std::string busiest_text;
};
absl::StatusOr<ByteFormula> FormulaFor(const ByteFormulaInput& input);

// What a run is told of itself.
ByteFormulaInput FormulaInputOf(const RunConfig& config, double gradient_bytes);
// What the records say of one variant. REQUIRES: all runs are of it, at least one.
ByteFormulaInput FormulaInputOf(const std::vector<const RunRecord*>& runs);

// Counted over formula, which the trunk promises within 1 %. nullopt: not measured, or the formula
// is 0.
struct ByteRatios {
  std::optional<double> worker_sent;
  std::optional<double> worker_received;
  std::optional<double> server_in;
  std::optional<double> server_out;
};
ByteRatios CountedOverFormula(const BytesResult& bytes);

// Fills in bytes and busiest; leaves out what no record measures. REQUIRES: all runs are of this
// variant, at least one.
absl::Status AggregateBytes(const std::vector<const RunRecord*>& runs, VariantResult* result);

}  // namespace lockstep
