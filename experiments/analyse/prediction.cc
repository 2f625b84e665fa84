#include "experiments/analyse/prediction.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/generate.h"
#include "base/limits.h"
#include "experiments/analyse/statistics.h"

namespace lockstep {
namespace {

struct Terms {
  double alpha = 0;  // messages one after another
  double beta = 0;   // bytes
  double gamma = 0;  // bytes
  std::string text;
};

double Tiles(double chunk_bytes, double tile_bytes) {
  return std::max(1.0, std::ceil(chunk_bytes / tile_bytes));
}

// "alpha", "3 alpha", "2(n-1) x 3 alpha".
std::string AlphaText(const std::string& rounds, double messages) {
  if (messages == 1) return absl::StrCat(rounds, rounds.empty() ? "" : " ", "alpha");
  return absl::StrCat(rounds, rounds.empty() ? "" : " x ", messages, " alpha");
}

class Predictor {
 public:
  explicit Predictor(const PredictionInput& input)
      : way_(input.way),
        n_(input.way.workers),
        s_(input.way.servers),
        bytes_(EncodedBytes(input.way)),
        buckets_(std::max(1, input.buckets)),
        tile_bytes_(static_cast<double>(std::max<int64_t>(1, input.chunk_bytes))) {}

  std::optional<Terms> Predict() const {
    if (way_.workers < 1) return std::nullopt;
    if (way_.mode == "ps_sync" && way_.servers > 0) return PsSync();
    if (way_.mode == "ps_async" && way_.servers > 0) return PsAsync();
    if (way_.mode != "all_reduce") return std::nullopt;
    if (way_.algorithm == "naive") return Naive();
    if (way_.algorithm == "ring") return Ring();
    if (way_.algorithm == "tree") return Tree();
    if (way_.algorithm == "ps_exchange" && way_.servers > 0) return PsExchange();
    return std::nullopt;
  }

 private:
  // Messages in place of one, for a bucket cut into `parts`.
  double Messages(double parts) const {
    const double tiles = Tiles(bytes_ / buckets_ / parts, tile_bytes_);
    return buckets_ * (tiles + (way_.exact ? 1 : 0));
  }

  Terms Naive() const {
    const double m = Messages(1);
    return {.alpha = (n_ - 1) * m,
            .beta = (n_ - 1) * bytes_,
            .gamma = (n_ - 1) * bytes_,
            .text = absl::StrCat("(n-1)(", AlphaText("", m), " + S beta + S gamma)")};
  }

  Terms Ring() const {
    const double m = Messages(n_);
    return {.alpha = 2 * (n_ - 1) * m,
            .beta = 2 * (n_ - 1) / n_ * bytes_,
            .gamma = (n_ - 1) / n_ * bytes_,
            .text = absl::StrCat(AlphaText("2(n-1)", m), " + 2(n-1)/n S beta + (n-1)/n S gamma")};
  }

  Terms Tree() const {
    if (way_.workers == 1) return {};
    const double levels = std::floor(std::log2(n_));
    const double neighbours = TreeNeighboursMax(way_.workers);
    const double children = std::min(2.0, n_ - 1);
    const double tiles = Tiles(bytes_ / buckets_ / kTreeChunksPerChannel, tile_bytes_);
    const double chunks = kTreeChunksPerChannel * tiles;
    const double chunk_bytes = bytes_ / buckets_ / chunks;
    const double rounds = 2 * levels + (chunks - 1) * neighbours;
    const double exponents = way_.exact ? 2 * levels + (kTreeChunksPerChannel - 1) * neighbours : 0;
    return {.alpha = buckets_ * (rounds + exponents),
            .beta = buckets_ * rounds * chunk_bytes,
            .gamma = buckets_ * (levels + chunks - 1) * children * chunk_bytes,
            .text = absl::StrCat(
                "2h (alpha + c beta) + h k c gamma + (C-1)(d (alpha + c beta) + k c gamma), h = ",
                levels, ", k = ", children, ", d = ", neighbours, ", C = ", chunks,
                buckets_ > 1 ? absl::StrCat(", for each of ", buckets_, " buckets") : "",
                way_.exact ? "; as many alpha again for the exponents" : "")};
  }

  // One server's link carries n/s of what a worker's does, never less.
  double Crowded() const { return std::max(1.0, n_ / s_); }

  Terms PsExchange() const {
    const double m = Messages(s_);
    return {.alpha = 2 * m,
            .beta = 2 * Crowded() * bytes_,
            .gamma = (n_ - 1) / s_ * bytes_,
            .text = absl::StrCat(AlphaText("2", m), " + 2 max(1, n/s) S beta + (n-1)/s S gamma")};
  }

  // Of a step between one worker and one server: the pushes, bucket by bucket, and the reply.
  double PsMessages() const {
    return buckets_ * Tiles(bytes_ / buckets_ / s_, tile_bytes_) + Tiles(bytes_ / s_, tile_bytes_);
  }

  Terms PsSync() const {
    return {
        .alpha = PsMessages(),
        .beta = 2 * Crowded() * bytes_,
        .gamma = n_ / s_ * bytes_,
        .text = absl::StrCat(AlphaText("", PsMessages()), " + 2 max(1, n/s) S beta + n/s S gamma")};
  }

  Terms PsAsync() const {
    return {.alpha = PsMessages(),
            .beta = 2 * bytes_,
            .gamma = bytes_ / s_,
            .text = absl::StrCat(AlphaText("", PsMessages()),
                                 " + 2 S beta + S/s gamma, servers' links not full")};
  }

  const ByteFormulaInput& way_;
  const double n_;
  const double s_;
  const double bytes_;
  const double buckets_;
  const double tile_bytes_;
};

}  // namespace

std::optional<ExchangePrediction> PredictExchange(const PredictionInput& input) {
  const std::optional<Terms> terms = Predictor(input).Predict();
  if (!terms) return std::nullopt;
  constexpr double kNanosecondsPerMicrosecond = 1e3;
  const double ns = terms->alpha * input.alpha_ns + terms->beta * input.beta_ns_per_byte +
                    terms->gamma * input.gamma_ns_per_byte;
  return ExchangePrediction{.exchange_us = ns / kNanosecondsPerMicrosecond, .formula = terms->text};
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
