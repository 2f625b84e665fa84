#include "experiments/analyse/bits.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "experiments/analyse/run_record.h"

namespace lockstep {
namespace {

// Ended, so its last hash is that of the last step.
bool HasFinalBits(const VariantResult& variant) {
  return IsSynchronous(variant.mode()) && variant.complete() && !variant.final_hash().empty();
}

bool PromisedEqual(const VariantResult& a, const VariantResult& b, bool exact) {
  if (a.workers() != b.workers()) return false;
  return exact || (!a.addition_order().empty() && a.addition_order() == b.addition_order());
}

}  // namespace

std::vector<BitsGroup> GroupByBits(const std::vector<const VariantResult*>& variants) {
  std::vector<BitsGroup> groups;
  for (const VariantResult* variant : variants) {
    if (!HasFinalBits(*variant)) continue;
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const BitsGroup& group) {
      return group[0]->final_hash() == variant->final_hash() &&
             group[0]->workers() == variant->workers();
    });
    if (same == groups.end()) {
      groups.push_back({variant});
    } else {
      same->push_back(variant);
    }
  }
  return groups;
}

bool IsExact(const RunFile& run) {
  return absl::EqualsIgnoreCase(run.experiment().reduction_order(), "exact");
}

std::optional<BitsConflict> FindBitsConflict(const RunFile& run) {
  const bool exact = IsExact(run);
  for (int i = 0; i < run.runs_size(); ++i) {
    for (int j = i + 1; j < run.runs_size(); ++j) {
      const VariantResult& first = run.runs(i);
      const VariantResult& second = run.runs(j);
      if (HasFinalBits(first) && HasFinalBits(second) && PromisedEqual(first, second, exact) &&
          first.final_hash() != second.final_hash()) {
        return BitsConflict{&first, &second};
      }
    }
  }
  return std::nullopt;
}

}  // namespace lockstep
