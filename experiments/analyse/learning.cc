#include "experiments/analyse/learning.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>

#include "experiments/analyse/loss.h"
#include "experiments/analyse/statistics.h"

namespace lockstep {
namespace {

using Group = std::vector<VariantResult*>;

std::vector<double> ToVector(const google::protobuf::RepeatedField<double>& field) {
  return {field.begin(), field.end()};
}

// The smoothed loss at the last step up to `place` of `axis`; nullopt where it ended before that.
std::optional<double> LossAt(const LossResult& loss, const std::vector<double>& axis,
                             double place) {
  if (axis.empty() || axis.back() < place || axis.front() > place) return std::nullopt;
  const auto after = std::upper_bound(axis.begin(), axis.end(), place);
  return Smoothed(ToVector(loss.value()))[static_cast<size_t>(after - axis.begin()) - 1];
}

void CompareAtEqualBudget(const Group& group) {
  double samples = std::numeric_limits<double>::infinity();
  double time_s = std::numeric_limits<double>::infinity();
  for (const VariantResult* variant : group) {
    const LossResult& loss = variant->loss();
    samples = std::min(samples, loss.samples(loss.samples_size() - 1));
    // The control saves the time of every exchange: its end is nobody's budget.
    if (variant->ranked()) time_s = std::min(time_s, loss.time_s(loss.time_s_size() - 1));
  }
  for (VariantResult* variant : group) {
    LossResult* loss = variant->mutable_loss();
    const auto at_samples = LossAt(*loss, ToVector(loss->samples()), samples);
    const auto at_time = LossAt(*loss, ToVector(loss->time_s()), time_s);
    if (at_samples) loss->set_at_equal_samples(*at_samples);
    if (at_time) loss->set_at_equal_time(*at_time);
  }
}

double RoundedUp(double value) {
  constexpr double kDigits = 3;
  if (!(value > 0)) return value;
  const double unit = std::pow(10, std::floor(std::log10(value)) + 1 - kDigits);
  constexpr double kSlack = 1e-9;  // a value that has three digits already keeps them
  return std::ceil(value / unit - kSlack) * unit;
}

// The least smoothed loss within the first 3/4 of the steps.
double ReachedAtThreeQuarters(const VariantResult& variant) {
  const std::vector<double> smooth = Smoothed(ToVector(variant.loss().value()));
  const size_t end = std::max<size_t>(1, smooth.size() * 3 / 4);
  return *std::min_element(smooth.begin(), smooth.begin() + static_cast<ptrdiff_t>(end));
}

std::optional<double> DefaultTarget(const Group& group) {
  std::optional<double> of_synchronous;
  std::optional<double> of_ranked;
  const auto raise = [](double value, std::optional<double>* target) {
    *target = std::max(target->value_or(value), value);
  };
  for (const VariantResult* variant : group) {
    if (!variant->ranked()) continue;
    const double reached = ReachedAtThreeQuarters(*variant);
    raise(reached, &of_ranked);
    if (IsSynchronous(variant->mode())) raise(reached, &of_synchronous);
  }
  const std::optional<double> target = of_synchronous ? of_synchronous : of_ranked;
  return target ? std::optional<double>(RoundedUp(*target)) : std::nullopt;
}

struct Reached {
  double time_s = 0;
  double samples = 0;
};
std::optional<Reached> FirstBelow(const RunRecord& run, double target) {
  const LossCurve curve = CurveOf({&run}, CommonSteps(run));
  const std::vector<double> smooth = Smoothed(curve.value);
  const auto found =
      std::find_if(smooth.begin(), smooth.end(), [&](double loss) { return loss <= target; });
  if (found == smooth.end()) return std::nullopt;
  const auto i = static_cast<size_t>(found - smooth.begin());
  return Reached{curve.time_s[i], curve.samples[i]};
}

// All runs of one seed.
struct SeedRuns {
  std::vector<double> time_s;
  std::vector<double> samples;
  bool missed = false;
};

void TimeToTarget(const std::vector<const RunRecord*>& runs, double target,
                  VariantResult* variant) {
  std::map<uint64_t, SeedRuns> seeds;
  for (const RunRecord* run : runs) {
    SeedRuns& seed = seeds[run->config.seed()];
    const std::optional<Reached> reached = FirstBelow(*run, target);
    if (reached) {
      seed.time_s.push_back(reached->time_s);
      seed.samples.push_back(reached->samples);
    } else {
      seed.missed = true;
    }
  }
  std::vector<double> time_s;
  std::vector<double> samples;
  for (const auto& entry : seeds) {
    if (entry.second.missed) continue;
    time_s.push_back(Quantile(entry.second.time_s, 0.5));
    samples.push_back(Quantile(entry.second.samples, 0.5));
  }
  TargetResult* result = variant->mutable_target();
  result->set_loss(target);
  result->set_seeds(static_cast<int>(seeds.size()));
  result->set_reached(static_cast<int>(time_s.size()));
  if (time_s.empty()) return;
  *result->mutable_time_s() = MedianInterval(time_s);
  *result->mutable_samples() = MedianInterval(samples);
}

std::vector<const RunRecord*> CompleteRunsOf(const std::vector<RunRecord>& runs,
                                             const VariantResult& variant) {
  std::vector<const RunRecord*> own;
  for (const RunRecord& run : runs) {
    if (run.complete && run.config.variant().name() == variant.variant() &&
        run.config.world_size() == variant.workers() && run.config.servers() == variant.servers()) {
      own.push_back(&run);
    }
  }
  return own;
}

std::optional<double> GivenTarget(const std::vector<RunRecord>& runs) {
  for (const RunRecord& run : runs) {
    const Train& train = run.config.experiment().train();
    if (train.has_target_loss()) return train.target_loss();
  }
  return std::nullopt;
}

}  // namespace

void CompareLearning(const std::vector<RunRecord>& runs, RunFile* file) {
  std::map<int, Group> of_workers;
  for (VariantResult& variant : *file->mutable_runs()) {
    if (variant.loss().has_final()) of_workers[variant.workers()].push_back(&variant);
  }
  const std::optional<double> given = GivenTarget(runs);
  for (const auto& [workers, group] : of_workers) {
    CompareAtEqualBudget(group);
    const std::optional<double> target = given ? given : DefaultTarget(group);
    if (!target) continue;
    for (VariantResult& variant : *file->mutable_runs()) {
      const std::vector<const RunRecord*> own = CompleteRunsOf(runs, variant);
      if (variant.workers() == workers && !own.empty()) TimeToTarget(own, *target, &variant);
    }
  }
}

}  // namespace lockstep
