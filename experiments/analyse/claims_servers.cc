// Claims about parameter servers: what a loss cost, whether a bound held, whose pushes came late,
// whose server holds too much.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "experiments/analyse/balance.h"
#include "experiments/analyse/claims.h"
#include "experiments/analyse/format.h"

namespace lockstep {
namespace {

std::string RecoveryOf(const VariantResult& variant) {
  const RecoveryResult& recovery = variant.recovery();
  const bool one = recovery.losses() == 1;
  std::string text = absl::StrCat(variant.id(), " went on after ", StepNumber(recovery.losses()),
                                  one ? " loss" : " losses");
  if (recovery.has_recovery_s()) {
    absl::StrAppend(&text, " within ", Significant(recovery.recovery_s().max(), 2), " s");
  }
  const double lost = recovery.lost_versions();
  absl::StrAppend(&text, lost > 0 ? absl::StrCat(", ", StepNumber(lost),
                                                 " acknowledged updates were made again")
                                  : ", no acknowledged update lost");
  return text;
}

}  // namespace

std::string RecoveryClaim(const Evidence& evidence) {
  std::vector<std::string> parts;
  for (const VariantResult& variant : evidence.run.runs()) {
    if (variant.recovery().losses() > 0) parts.push_back(RecoveryOf(variant));
  }
  constexpr size_t kShownMax = 3;
  if (parts.size() > kShownMax) parts.resize(kShownMax);
  return absl::StrJoin(parts, "; ");
}

std::string BoundClaim(const Evidence& evidence) {
  std::vector<std::string> parts;
  for (const VariantResult* variant : evidence.asynchronous) {
    const StalenessResult& staleness = variant->staleness();
    if (!staleness.has_bound() || staleness.clock_max() > staleness.bound()) continue;
    parts.push_back(absl::StrCat(variant->id(), " read nothing older than ",
                                 StepNumber(staleness.clock_max()), " of ",
                                 StepNumber(staleness.bound()), " allowed steps"));
  }
  return absl::StrJoin(parts, "; ");
}

std::string RejectedClaim(const Evidence& evidence) {
  std::vector<std::string> parts;
  for (const VariantResult* variant : evidence.asynchronous) {
    double all = 0;
    double rejected = 0;
    const PushCount* most = nullptr;
    for (const PushCount& count : variant->pushes()) {
      all += count.accepted() + count.rejected();
      rejected += count.rejected();
      if (most == nullptr || count.rejected() > most->rejected()) most = &count;
    }
    if (all == 0) continue;
    parts.push_back(
        absl::StrCat(variant->id(), " dropped ", Percent(rejected / all), " of the pushes",
                     rejected > 0 ? absl::StrCat(", most of worker ", most->worker()) : ""));
  }
  return absl::StrJoin(parts, "; ");
}

std::string BalanceClaim(const Evidence& evidence) {
  std::vector<std::string> parts;
  for (const VariantResult& variant : evidence.run.runs()) {
    if (variant.balance().max_over_mean() <= kBalancedMax) continue;
    parts.push_back(absl::StrCat(variant.id(), ", placed ", BalanceText(variant.balance())));
  }
  return absl::StrJoin(parts, "; ");
}

}  // namespace lockstep
