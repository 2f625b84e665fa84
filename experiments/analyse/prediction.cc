#include "experiments/analyse/prediction.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/choose.h"
#include "allreduce/schedule/cost.h"
#include "allreduce/schedule/simulate.h"
#include "base/limits.h"
#include "base/numeric/exact.h"
#include "experiments/analyse/statistics.h"

namespace lockstep {
namespace {

struct Time {
  double ns = 0;
  std::string formula;
};

// One collective of `bytes`.
std::optional<Time> TimeOf(const PredictionInput& input, double bytes) {
  const absl::StatusOr<ScheduleSpec> spec = ScheduleSpecOf(input.way);
  if (!spec.ok() || input.way.workers < 1) return std::nullopt;
  const CostModel cost{.latency_ns = input.alpha_ns,
                       .beta_ns_per_byte = input.beta_ns_per_byte,
                       .gamma_ns_per_byte = input.gamma_ns_per_byte};
  const auto whole_bytes = static_cast<int64_t>(std::llround(bytes));
  if (spec->algorithm == Algorithm::kAuto) {
    const Choice choice = ChooseAlgorithm(spec->world_size, whole_bytes, cost);
    return Time{choice.candidates.front().time_ns, choice.Why()};
  }
  const std::optional<ClosedForm> form = ClosedFormOf(*spec, cost, whole_bytes, input.chunk_bytes);
  if (form) return Time{form->time_ns, form->formula};
  SimulationOptions options;
  options.cost = cost;
  options.bytes = whole_bytes;
  options.element_bytes = input.way.element_bytes;
  options.tile_bytes = input.chunk_bytes;
  const absl::StatusOr<Simulation> simulation = Simulate(*spec, options);
  if (!simulation.ok()) return std::nullopt;
  return Time{simulation->time_ns, "its schedule, simulated"};
}

std::optional<Time> AllReduceTime(const PredictionInput& input) {
  const double buckets = std::max(1, input.buckets);
  std::optional<Time> time = TimeOf(input, EncodedBytes(input.way) / buckets);
  if (!time) return std::nullopt;
  time->ns *= buckets;
  if (buckets > 1) absl::StrAppend(&time->formula, "; for each of ", buckets, " buckets");
  if (!input.way.exact) return time;
  constexpr double kExponentBytes = 4;
  const double elements = input.way.gradient_bytes / input.way.element_bytes / buckets;
  const double blocks = std::ceil(elements / static_cast<double>(kExactBlockElements));
  const std::optional<Time> exponents = TimeOf(input, blocks * kExponentBytes);
  if (!exponents) return std::nullopt;
  time->ns += buckets * exponents->ns;
  absl::StrAppend(&time->formula, "; again for the exponents");
  return time;
}

// Messages of a step between one worker and one server: the pushes, bucket by bucket, and the
// reply.
double PsMessages(const PredictionInput& input) {
  const double tile_bytes = static_cast<double>(std::max<int64_t>(1, input.chunk_bytes));
  const double buckets = std::max(1, input.buckets);
  const double shard_bytes = EncodedBytes(input.way) / input.way.servers;
  const auto tiles = [tile_bytes](double bytes) {
    return std::max(1.0, std::ceil(bytes / tile_bytes));
  };
  return buckets * tiles(shard_bytes / buckets) + tiles(shard_bytes);
}

double LargestShare(const ByteFormulaInput& way) {
  if (way.shares.empty()) return 1.0 / way.servers;
  return *std::max_element(way.shares.begin(), way.shares.end());
}

std::optional<Time> ParameterServerTime(const PredictionInput& input) {
  const double n = input.way.workers;
  const double s = input.way.servers;
  if (n < 1 || s < 1) return std::nullopt;
  const bool sync = input.way.mode == "ps_sync";
  const double bytes = EncodedBytes(input.way);
  const double messages = PsMessages(input);
  const double folds = (sync ? n : 1) * LargestShare(input.way) * bytes;
  const double rest_ns = messages * input.alpha_ns + folds * input.gamma_ns_per_byte;
  if (!sync) {
    return Time{rest_ns + 2 * bytes * input.beta_ns_per_byte,
                absl::StrCat(messages, " alpha + 2 S beta + S/s gamma, servers' links not full")};
  }
  const absl::StatusOr<ByteFormula> formula = FormulaFor(input.way);
  if (!formula.ok()) return std::nullopt;
  const bool plain = formula->busiest_text == "S" || formula->busiest_text == "n S / s";
  return Time{rest_ns + 2 * formula->busiest * input.beta_ns_per_byte,
              absl::StrCat(messages, " alpha + 2 ",
                           plain ? "max(1, n/s) S" : absl::StrCat("(", formula->busiest_text, ")"),
                           " beta + n/s S gamma")};
}

}  // namespace

std::optional<ExchangePrediction> PredictExchange(const PredictionInput& input) {
  const std::string& mode = input.way.mode;
  std::optional<Time> time;
  if (mode == "all_reduce") time = AllReduceTime(input);
  // ps_bounded and ps_k_of_n wait for others by a law of their own, not by bytes.
  if (mode == "ps_sync" || mode == "ps_async") time = ParameterServerTime(input);
  if (!time) return std::nullopt;
  constexpr double kNanosecondsPerMicrosecond = 1e3;
  return ExchangePrediction{.exchange_us = time->ns / kNanosecondsPerMicrosecond,
                            .formula = time->formula};
}

void AggregatePrediction(const std::vector<const RunRecord*>& runs, VariantResult* result) {
  std::vector<double> alpha_ns;
  std::vector<double> beta_ns;
  std::vector<double> gamma_ns;
  Prediction prediction;
  int samples = 0;
  int buckets = 1;
  for (const RunRecord* run : runs) {
    if (run->workers.empty() || !run->workers[0].set_up.has_link()) continue;
    const auto& link = run->workers[0].set_up.link();
    *prediction.mutable_link() = link;
    alpha_ns.push_back(link.alpha_ns());
    beta_ns.push_back(link.beta_ns_per_byte());
    gamma_ns.push_back(link.gamma_ns_per_byte());
    samples += link.samples();
    buckets = run->workers[0].started.buckets();
  }
  if (alpha_ns.empty()) return;
  const LimitsSpec& limits = runs[0]->config.experiment().limits();
  const PredictionInput input = {
      .way = FormulaInputOf(runs),
      .alpha_ns = Quantile(alpha_ns, 0.5),
      .beta_ns_per_byte = Quantile(beta_ns, 0.5),
      .gamma_ns_per_byte = Quantile(gamma_ns, 0.5),
      .buckets = buckets,
      .chunk_bytes = limits.has_chunk_bytes() ? limits.chunk_bytes() : Limits{}.chunk_bytes};
  const std::optional<ExchangePrediction> predicted = PredictExchange(input);
  if (!predicted) return;
  prediction.mutable_link()->set_alpha_ns(input.alpha_ns);
  prediction.mutable_link()->set_beta_ns_per_byte(input.beta_ns_per_byte);
  prediction.mutable_link()->set_gamma_ns_per_byte(input.gamma_ns_per_byte);
  prediction.mutable_link()->set_samples(samples);
  prediction.set_exchange_us(predicted->exchange_us);
  prediction.set_formula(predicted->formula);
  *result->mutable_prediction() = prediction;
}

}  // namespace lockstep
