// Chains of copies under losses: whatever dies where and when, as long as one copy lives, nothing
// that was told is lost, nothing is applied twice, and all copies are equal at the end. A failure
// prints the seed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/allreduce/tier.h"
#include "tests/ps_server/replication_net.h"

namespace lockstep {
namespace {

using testing::IsEmpty;

constexpr uint64_t kSeeds = kFullTier ? 1'000 : 60;

PsRules RulesOf(PsMode mode, int32_t workers) {
  PsRules rules;
  rules.mode = mode;
  rules.staleness = mode == PsMode::kBounded ? 1 : 0;
  rules.k = mode == PsMode::kKOfN ? workers - 1 : 0;
  const bool alone = AppliesAlone(mode);
  rules.optimizer = {.learning_rate = 0.02F,
                     .momentum = 0.5F,
                     .divisor = alone ? 1.0F : static_cast<float>(workers)};
  return rules;
}

struct Case {
  PsMode mode;
  int32_t replicas;
  bool aggregated;
};
std::string NameOf(const Case& row) {
  constexpr const char* kModes[] = {"Sync", "Async", "Bounded", "KOfN"};
  return absl::StrCat(kModes[static_cast<int>(row.mode)], "K", row.replicas,
                      row.aggregated ? "Aggregated" : "Each");
}
void PrintTo(const Case& row, std::ostream* out) { *out << NameOf(row); }

NetOptions OptionsOf(const Case& row, uint64_t seed) {
  NetOptions options;
  options.workers = 1 + static_cast<int32_t>(seed % 4);
  if (row.mode == PsMode::kKOfN) options.workers = 2 + static_cast<int32_t>(seed % 3);
  options.rules = RulesOf(row.mode, options.workers);
  options.replicas = row.replicas;
  options.aggregated = row.aggregated;
  options.seed = seed;
  if (row.mode == PsMode::kKOfN) options.rules.steps = options.steps;
  return options;
}

class Chains : public testing::TestWithParam<Case> {};

TEST_P(Chains, KeepEveryPromiseUndisturbed) {
  for (uint64_t seed = 1; seed <= kSeeds / 4; ++seed) {
    ReplicationNet net(OptionsOf(GetParam(), seed));
    net.Run();
    ASSERT_THAT(net.broken(), IsEmpty()) << "seed " << seed;
    EXPECT_EQ(net.epochs(), 1);
  }
}

TEST_P(Chains, KeepEveryPromiseUnderLosses) {
  std::map<CrashPoint, int> deaths;
  int64_t zombies = 0;
  int64_t refused = 0;
  int64_t caught_up = 0;
  int64_t breaks = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    NetOptions options = OptionsOf(GetParam(), seed);
    options.losses = options.replicas == 0 ? 0 : 5;
    options.worker_losses = static_cast<int>(seed % 3);
    options.breaks = static_cast<int>(seed % 4);
    ReplicationNet net(options);
    net.Run();
    ASSERT_THAT(net.broken(), IsEmpty()) << "seed " << seed;
    for (const auto& [point, count] : net.deaths()) deaths[point] += count;
    zombies += net.zombies();
    refused += net.refused();
    caught_up += net.caught_up();
    breaks += net.breaks();
  }
  if (GetParam().replicas == 0) return;
  EXPECT_GT(zombies, 0);
  EXPECT_GT(refused, 0);
  EXPECT_GT(caught_up, 0);
  EXPECT_GT(breaks, 0);
  for (const CrashPoint point :
       {CrashPoint::kBeforeReceive, CrashPoint::kHalfReceived, CrashPoint::kReceivedNotApplied,
        CrashPoint::kAppliedNotReplicated, CrashPoint::kReplicatedNotAcknowledged,
        CrashPoint::kAcknowledged, CrashPoint::kDuringStateTransfer, CrashPoint::kRestoring}) {
    EXPECT_GT(deaths[point], 0) << "no server died at point " << static_cast<int>(point);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Modes, Chains,
    testing::Values(Case{PsMode::kSync, 0, true}, Case{PsMode::kSync, 1, true},
                    Case{PsMode::kSync, 2, true}, Case{PsMode::kSync, 1, false},
                    Case{PsMode::kSync, 2, false}, Case{PsMode::kAsync, 0, true},
                    Case{PsMode::kAsync, 1, true}, Case{PsMode::kAsync, 2, false},
                    Case{PsMode::kBounded, 1, false}, Case{PsMode::kBounded, 2, true},
                    Case{PsMode::kKOfN, 1, true}, Case{PsMode::kKOfN, 2, false}),
    [](const auto& row) { return NameOf(row.param); });

// Rules that the straight-line replay does not know: copies are equal all the same.
struct Rules {
  const char* name;
  Case row;
  void (*change)(PsRules*);
};
void PrintTo(const Rules& row, std::ostream* out) { *out << row.name; }

class OtherRules : public testing::TestWithParam<Rules> {};

TEST_P(OtherRules, KeepEveryPromiseUnderLosses) {
  for (uint64_t seed = 1; seed <= kSeeds / 2; ++seed) {
    NetOptions options = OptionsOf(GetParam().row, seed);
    GetParam().change(&options.rules);
    options.losses = 4;
    options.worker_losses = static_cast<int>(seed % 2);
    options.breaks = 2;
    options.replayed = false;
    ReplicationNet net(options);
    net.Run();
    ASSERT_THAT(net.broken(), IsEmpty()) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Modes, OtherRules,
    testing::Values(
        Rules{
            "scaled", {PsMode::kAsync, 2, true}, [](PsRules* r) { r->scale_by_staleness = true; }},
        Rules{"scaled_each",
              {PsMode::kAsync, 2, false},
              [](PsRules* r) { r->scale_by_staleness = true; }},
        Rules{"scaled_bounded",
              {PsMode::kBounded, 1, false},
              [](PsRules* r) { r->scale_by_staleness = true; }},
        Rules{"bound_0", {PsMode::kBounded, 2, true}, [](PsRules* r) { r->staleness = 0; }},
        Rules{
            "f16_each", {PsMode::kSync, 2, false}, [](PsRules* r) { r->wire_dtype = Dtype::kF16; }},
        Rules{"bf16", {PsMode::kAsync, 1, true}, [](PsRules* r) { r->wire_dtype = Dtype::kBf16; }},
        Rules{"exact", {PsMode::kSync, 2, true}, [](PsRules* r) { r->order = PsOrder::kExact; }},
        Rules{"exact_each",
              {PsMode::kSync, 1, false},
              [](PsRules* r) { r->order = PsOrder::kExact; }},
        Rules{"adam",
              {PsMode::kSync, 1, true},
              [](PsRules* r) {
                r->optimizer.kind = OptimizerKind::kAdam;
                r->optimizer.momentum = 0;
              }},
        Rules{"late", {PsMode::kKOfN, 2, true}, [](PsRules* r) { r->apply_late = true; }},
        Rules{"late_each", {PsMode::kKOfN, 2, false}, [](PsRules* r) { r->apply_late = true; }}),
    [](const auto& row) { return std::string(row.param.name); });

struct Planted {
  const char* name;
  Bug bug;
  Case row;
  const char* says;  // part of what is found
};
void PrintTo(const Planted& row, std::ostream* out) { *out << row.name; }

class PlantedBugs : public testing::TestWithParam<Planted> {};

TEST_P(PlantedBugs, AreFound) {
  constexpr uint64_t kSeedsMax = 400;
  for (uint64_t seed = 1; seed <= kSeedsMax; ++seed) {
    NetOptions options = OptionsOf(GetParam().row, seed);
    options.losses = 5;
    options.worker_losses = 2;
    options.bug = GetParam().bug;
    ReplicationNet net(options);
    net.Run();
    for (const std::string& text : net.broken()) {
      if (text.find(GetParam().says) == std::string::npos) continue;
      RecordProperty("seeds", static_cast<int>(seed));
      std::printf("%s: found with seed %d: %s\n", GetParam().name, static_cast<int>(seed),
                  text.c_str());
      return;
    }
  }
  FAIL() << "not found in " << kSeedsMax << " seeds";
}

INSTANTIATE_TEST_SUITE_P(
    Chaos, PlantedBugs,
    testing::Values(
        Planted{"acknowledge_early", Bug::kAcknowledgeEarly, {PsMode::kAsync, 1, true}, "was lost"},
        Planted{"forget_marks", Bug::kForgetMarks, {PsMode::kAsync, 1, true}, "applied twice"},
        Planted{"no_fence", Bug::kNoFence, {PsMode::kAsync, 2, true}, "shard 0: "},
        Planted{
            "count_requests", Bug::kCountRequests, {PsMode::kSync, 1, true}, "other parameters"},
        Planted{"apply_half", Bug::kApplyHalf, {PsMode::kSync, 1, true}, "other parameters"}),
    [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace lockstep
