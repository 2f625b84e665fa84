// prediction.h: what one step's exchange should cost by the alpha-beta model. No measurement.
// alpha s a message, beta s a byte and direction, gamma s a byte folded, as a ping-pong over the
// run's own links and a fold in memory gave them before the first step. n workers, s servers, S
// bytes as encoded. Nothing is hidden behind compute, links are full duplex, every process has a
// core of its own.
//   collectives  the closed form of their schedule (allreduce/schedule/cost.h) for each bucket,
//   with
//                EXACT another one for the exponents; a schedule without a form is simulated; AUTO
//                is the fastest of its candidates
//   ps_sync      (p+q) alpha + 2 max(1, n/s) S beta + n/s S gamma: p messages a push (one a bucket
//                and chunk), q a reply; the reply comes once the whole step is applied
//   ps_async     (p+q) alpha + 2 S beta + S/s gamma, as long as the servers' links are not full
// Channels share the link, so they are in none of these. Papers: Hockney, Parallel Computing 20(3),
// 1994; Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005. Units: ns, bytes, us. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/analyse/bytes.h"
#include "experiments/analyse/run_record.h"

namespace lockstep {

struct PredictionInput {
  ByteFormulaInput way;
  double alpha_ns = 0;
  double beta_ns_per_byte = 0;
  double gamma_ns_per_byte = 0;
  int buckets = 1;
  int64_t chunk_bytes = 1 << 20;  // limits.chunk_bytes
};
struct ExchangePrediction {
  double exchange_us = 0;
  std::string formula;
};
// nullopt: nothing is exchanged, or no formula is known.
std::optional<ExchangePrediction> PredictExchange(const PredictionInput& input);

// From the medians of what the runs measured; leaves it unset where none did.
void AggregatePrediction(const std::vector<const RunRecord*>& runs, VariantResult* result);

}  // namespace lockstep
