// bytes.h: what every way to synchronise must put on the links, by formula and as counted.
// Units: bytes per member and step. S = gradient bytes of the whole model, n workers, s servers.
// Counted: every byte handed to the socket or to gRPC in measured steps, our headers included,
// HTTP/2 and TCP headers not; start-up, call check, start values and probe are apart (`set_up`).
// Errors: InvalidArgument for a mode or algorithm without a formula. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/analyse/run_record.h"

namespace lockstep {

struct ByteFormula {
  double worker = 0;        // sent by one worker, and received: the same in every way built yet
  std::string worker_text;  // "2(n-1)/n S"
  std::optional<double> server;  // into one server, and out of it
  std::string server_text;       // "n S / s"
};
struct ByteFormulaInput {
  std::string mode;
  std::string algorithm;
  int workers = 0;
  int servers = 0;
  double gradient_bytes = 0;
};
absl::StatusOr<ByteFormula> FormulaFor(const ByteFormulaInput& input);

// Counted over formula, which the trunk promises within 1 %. nullopt: not measured, or the formula
// is 0.
struct ByteRatios {
  std::optional<double> worker_sent;
  std::optional<double> worker_received;
  std::optional<double> server_in;
  std::optional<double> server_out;
};
ByteRatios CountedOverFormula(const BytesResult& bytes);

// Fills in bytes and busiest; leaves out what no record measures. REQUIRES: mode, algorithm,
// workers, servers of `result` are set; all runs are of this variant.
absl::Status AggregateBytes(const std::vector<const RunRecord*>& runs, VariantResult* result);

}  // namespace lockstep
