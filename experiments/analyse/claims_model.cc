// Claims about what the model predicts and what learning costs: beside the measured facts of
// claims.cc, and under guards of their own.
#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "experiments/analyse/claims.h"
#include "experiments/analyse/format.h"
#include "experiments/analyse/learning.h"

namespace lockstep {
namespace {

using Variants = std::vector<const VariantResult*>;

std::string Milliseconds(double us) { return absl::StrCat(Significant(us / 1e3, 2), " ms"); }

bool HasTarget(const VariantResult* variant) { return variant->target().seeds() > 0; }

struct Shown {
  double value = 0;
  std::string text;
};
using Show = Shown (*)(const TargetResult& target);

// "9600", "9600 (3 of 5 seeds)", "never".
std::string ToTarget(const VariantResult& variant, Show show) {
  const TargetResult& target = variant.target();
  if (target.reached() == 0) return "never";
  if (target.reached() == target.seeds()) return show(target).text;
  return absl::StrCat(show(target).text, " (", target.reached(), " of ", target.seeds(), " seeds)");
}

// Synchronous ways do the same mathematics, so they are one entry: "synchronous ways 9600 to 9728".
std::string AllToTarget(const Variants& synchronous, const Variants& others, Show show) {
  std::vector<std::string> parts;
  if (synchronous.size() == 1) {
    parts.push_back(absl::StrCat(synchronous[0]->id(), " ", ToTarget(*synchronous[0], show)));
  } else if (!synchronous.empty()) {
    const auto [least, most] =
        std::minmax_element(synchronous.begin(), synchronous.end(),
                            [&](const VariantResult* a, const VariantResult* b) {
                              return show(a->target()).value < show(b->target()).value;
                            });
    const std::string low = ToTarget(**least, show);
    const std::string high = ToTarget(**most, show);
    parts.push_back(
        absl::StrCat("synchronous ways ", low, low == high ? "" : " to ", low == high ? "" : high));
  }
  for (const VariantResult* variant : others) {
    parts.push_back(absl::StrCat(variant->id(), " ", ToTarget(*variant, show)));
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace

std::string LearningClaim(const Evidence& evidence) {
  Variants synchronous;
  Variants others;
  std::copy_if(evidence.compared.begin(), evidence.compared.end(), std::back_inserter(synchronous),
               HasTarget);
  std::copy_if(evidence.asynchronous.begin(), evidence.asynchronous.end(),
               std::back_inserter(others), HasTarget);
  if (others.empty() || synchronous.size() + others.size() < 2) return "";
  int seeds = others[0]->target().seeds();
  for (const Variants* variants : {&synchronous, &others}) {
    for (const VariantResult* variant : *variants) {
      seeds = std::min(seeds, variant->target().seeds());
    }
  }
  const std::string to = absl::StrCat(
      " to a loss of ", Significant(others[0]->target().loss(), 3),
      seeds >= kSureSeeds ? " (median of " : " (preliminary: ", Counted(seeds, "seed"), "): ");
  const std::string samples = AllToTarget(synchronous, others, [](const TargetResult& target) {
    return Shown{target.samples().median(), StepNumber(target.samples().median())};
  });
  if (evidence.run.host().cpu_bound()) return absl::StrCat("Samples", to, samples);
  const std::string times = AllToTarget(synchronous, others, [](const TargetResult& target) {
    return Shown{target.time_s().median(),
                 absl::StrCat(Significant(target.time_s().median(), 3), " s")};
  });
  return absl::StrCat("Samples", to, samples, "; time: ", times);
}

std::string PredictionClaim(const Evidence& evidence) {
  constexpr size_t kPredictedMax = 6;  // a line and a half
  Variants predicted;                  // of one mathematics: other ways' exchanges do not compare
  for (const VariantResult* variant : evidence.compared) {
    if (variant->has_prediction()) predicted.push_back(variant);
  }
  if (predicted.empty()) return "";
  std::stable_sort(predicted.begin(), predicted.end(),
                   [](const VariantResult* a, const VariantResult* b) {
                     return a->prediction().exchange_us() < b->prediction().exchange_us();
                   });
  if (predicted.size() > kPredictedMax) predicted.resize(kPredictedMax);
  std::vector<std::string> parts;
  for (const VariantResult* variant : predicted) {
    parts.push_back(absl::StrCat(variant->id(), " ",
                                 Milliseconds(variant->prediction().exchange_us()),
                                 parts.empty() ? " of exchange a step" : ""));
  }
  return absl::StrCat("Predicted by the alpha-beta model, not measured: ",
                      absl::StrJoin(parts, ", "));
}

}  // namespace lockstep
