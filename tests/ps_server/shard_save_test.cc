// What a shard's state is good for: a restart at any point goes on with the same bits, and a copy
// that is told what its primary did has the same state.
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/ps_server/one_shard.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;

constexpr int64_t kCount = 7;
constexpr int32_t kWorkers = 3;
constexpr int64_t kSteps = 6;
constexpr uint64_t kSeed = 23;

struct Case {
  std::string name;
  PsRules rules;
};
void PrintTo(const Case& row, std::ostream* out) { *out << row.name; }

std::vector<Case> Cases() {
  const OptimizerOptions sgd = {.learning_rate = 0.1F, .momentum = 0.9F, .divisor = 1.0F};
  OptimizerOptions mean = sgd;
  mean.divisor = kWorkers;
  OptimizerOptions adam = mean;
  adam.kind = OptimizerKind::kAdam;
  adam.momentum = 0;
  std::vector<Case> cases;
  const auto add = [&cases](const std::string& name, PsMode mode,
                            const OptimizerOptions& optimizer) -> PsRules& {
    cases.push_back({name, {}});
    PsRules& rules = cases.back().rules;
    rules.mode = mode;
    rules.optimizer = optimizer;
    rules.steps = kSteps;
    return rules;
  };
  add("sync", PsMode::kSync, mean);
  add("sync_adam", PsMode::kSync, adam);
  add("sync_exact", PsMode::kSync, mean).order = PsOrder::kExact;
  add("sync_sums", PsMode::kSync, mean).sum_only = true;
  add("async", PsMode::kAsync, sgd);
  add("async_scaled", PsMode::kAsync, sgd).scale_by_staleness = true;
  add("bounded_0", PsMode::kBounded, sgd).staleness = 0;
  add("bounded_2", PsMode::kBounded, sgd).staleness = 2;
  PsRules& scaled = add("bounded_1_scaled", PsMode::kBounded, sgd);
  scaled.staleness = 1;
  scaled.scale_by_staleness = true;
  add("k_of_n_drop", PsMode::kKOfN, mean).k = 2;
  PsRules& late = add("k_of_n_apply", PsMode::kKOfN, adam);
  late.k = 2;
  late.apply_late = true;
  return cases;
}

struct Action {
  int32_t worker = 0;
  int64_t step = 0;
  bool pull = false;
  int64_t base = 0;
};

ShardOutput Do(const Action& action, OneShard* shard) {
  return action.pull ? shard->Pull(action.worker, action.step)
                     : shard->Push(action.worker, action.step, action.base);
}

// A whole run, in an order drawn at random: each worker pulls, pushes, pulls ...
std::vector<Action> MakeScript(const ShardOptions& options, uint64_t seed) {
  OneShard shard(options, kSeed);
  std::mt19937_64 random(seed);
  std::vector<std::deque<Action>> next(kWorkers);
  for (int32_t w = 0; w < kWorkers; ++w) next[static_cast<size_t>(w)] = {{w, 0, true, 0}};
  std::vector<Action> script;
  for (;;) {
    std::vector<size_t> able;
    for (size_t w = 0; w < next.size(); ++w) {
      if (!next[w].empty()) able.push_back(w);
    }
    if (able.empty()) return script;
    const size_t w = able[random() % able.size()];
    script.push_back(next[w].front());
    next[w].pop_front();
    const ShardOutput output = Do(script.back(), &shard);
    EXPECT_TRUE(output.refusals.empty()) << output.refusals[0].status;
    for (const ShardReply& reply : output.replies) {
      if (reply.step == kSteps) continue;
      next[static_cast<size_t>(reply.worker)] = {{reply.worker, reply.step + 1, false, reply.round},
                                                 {reply.worker, reply.step + 1, true}};
    }
  }
}

void ExpectSame(const ShardOutput& a, const ShardOutput& b, const std::string& where) {
  ASSERT_EQ(a.replies.size(), b.replies.size()) << where;
  for (size_t i = 0; i < a.replies.size(); ++i) {
    EXPECT_EQ(a.replies[i].worker, b.replies[i].worker) << where;
    EXPECT_EQ(a.replies[i].step, b.replies[i].step) << where;
    EXPECT_EQ(a.replies[i].version, b.replies[i].version) << where;
    EXPECT_EQ(a.replies[i].rejected, b.replies[i].rejected) << where;
    EXPECT_EQ(a.replies[i].least_step, b.replies[i].least_step) << where;
    EXPECT_TRUE(SameBits(*a.replies[i].parameters, *b.replies[i].parameters)) << where;
  }
  ASSERT_EQ(a.update.has_value(), b.update.has_value()) << where;
  ASSERT_EQ(a.dropped.has_value(), b.dropped.has_value()) << where;
  if (!a.update.has_value()) return;
  EXPECT_EQ(a.update->version, b.update->version) << where;
  EXPECT_EQ(a.update->ids.size(), b.update->ids.size()) << where;
  if (!a.update->staleness.has_value()) return;
  EXPECT_EQ(a.update->staleness->update, b.update->staleness->update) << where;
  EXPECT_EQ(a.update->staleness->clock, b.update->staleness->clock) << where;
}

void ExpectSame(const ShardState& a, const ShardState& b, const std::string& where) {
  EXPECT_EQ(a.version, b.version) << where;
  EXPECT_EQ(a.round, b.round) << where;
  EXPECT_EQ(a.previous_version, b.previous_version) << where;
  EXPECT_EQ(a.previous_step, b.previous_step) << where;
  EXPECT_TRUE(SameBits(*a.parameters, *b.parameters)) << where;
  EXPECT_TRUE(SameBits(a.optimizer_state, b.optimizer_state)) << where;
  EXPECT_EQ(a.workers, b.workers) << where;
  EXPECT_EQ(a.staleness, b.staleness) << where;
  ASSERT_EQ(a.previous == nullptr, b.previous == nullptr) << where;
  if (a.previous != nullptr) {
    EXPECT_TRUE(SameBits(*a.previous, *b.previous)) << where;
  }
}

class SavedShard : public testing::TestWithParam<Case> {
 protected:
  ShardOptions Options() const { return OneShardOptions(GetParam().rules, kWorkers, kCount); }
};
INSTANTIATE_TEST_SUITE_P(Modes, SavedShard, testing::ValuesIn(Cases()),
                         [](const auto& row) { return row.param.name; });

// What workers send again to a shard that came back: the pushes that it does not have, in the order
// in which they were made, and the pulls that have no answer.
std::vector<Action> Unfinished(const std::vector<Action>& script, size_t end, const OneShard& shard,
                               const std::vector<int64_t>& answered) {
  std::vector<Action> unfinished;
  for (size_t i = 0; i < end; ++i) {
    const auto worker = static_cast<size_t>(script[i].worker);
    const bool pull_open = script[i].pull && script[i].step > answered[worker];
    const bool push_open =
        !script[i].pull && script[i].step > shard.shard().last_step(script[i].worker);
    if (pull_open || push_open) unfinished.push_back(script[i]);
  }
  return unfinished;
}

TEST_P(SavedShard, ARestartAtAnyPointGoesOnWithTheSameBits) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const std::vector<Action> script = MakeScript(Options(), seed);
    for (size_t cut = 0; cut <= script.size(); ++cut) {
      const std::string where = absl::StrCat("seed ", seed, ", cut ", cut);
      OneShard whole(Options(), kSeed);
      std::vector<int64_t> answered(kWorkers, -1);
      for (size_t i = 0; i < cut; ++i) {
        for (const ShardReply& reply : Do(script[i], &whole).replies) {
          answered[static_cast<size_t>(reply.worker)] = reply.step;
        }
      }
      OneShard restored(Options(), kSeed);
      restored.Become(whole.shard().Save(), std::vector<bool>(kWorkers, true));
      for (int32_t w = 0; w < kWorkers; ++w) restored.Attach(w);
      ExpectSame(restored.shard().Save(), whole.shard().Save(), where);
      for (const Action& again : Unfinished(script, cut, restored, answered)) {
        EXPECT_TRUE(Do(again, &restored).replies.empty()) << where;
      }
      for (size_t i = cut; i < script.size(); ++i) {
        ExpectSame(Do(script[i], &restored), Do(script[i], &whole), absl::StrCat(where, " at ", i));
        if (HasFatalFailure()) return;
      }
      ExpectSame(restored.shard().Save(), whole.shard().Save(), where);
    }
  }
}

// A copy is told of updates, drops, and which worker has read.
TEST_P(SavedShard, ACopyThatIsToldEverythingHasTheSameState) {
  const bool alone = AppliesAlone(GetParam().rules.mode);
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const std::vector<Action> script = MakeScript(Options(), seed);
    OneShard primary(Options(), kSeed);
    primary.shard().SetSums(true);
    OneShard copy(Options(), kSeed);
    for (size_t i = 0; i < script.size(); ++i) {
      const ShardOutput output = Do(script[i], &primary);
      if (output.dropped.has_value()) {
        EXPECT_THAT(copy.shard().ApplyDrop(*output.dropped), IsOk());
      }
      if (output.update.has_value()) {
        const auto applied =
            copy.shard().ApplySum(output.update->ids, primary.shard().round(), *output.sum, 0);
        ASSERT_THAT(applied, IsOk());
        EXPECT_EQ(applied->version, output.update->version);
        EXPECT_EQ(applied->step, output.update->step);
      }
      for (const ShardReply& reply : output.replies) {
        if (alone) {
          copy.Pull(reply.worker, reply.step);
        }
      }
      ExpectSame(copy.shard().Save(), primary.shard().Save(),
                 absl::StrCat("seed ", seed, " at ", i));
      if (HasFatalFailure()) return;
    }
  }
}

// Copies that fold on their own are given whole pushes, also the one that completes an update.
TEST_P(SavedShard, WholePushesAreHandedOut) {
  ShardOptions options = Options();
  options.whole_pushes = true;
  OneShard shard(options, kSeed);
  for (const Action& action : MakeScript(options, 1)) {
    const ShardOutput output = Do(action, &shard);
    ASSERT_EQ(output.push != nullptr, !action.pull);
    if (action.pull) continue;
    EXPECT_EQ(output.staged->step, action.step);
    EXPECT_TRUE(SameBits(*output.push, Gradients(kSeed, action.worker, action.step, kCount)));
  }
}

PsRules Sync() { return Cases().front().rules; }

TEST(SavedState, OfAnotherShardIsRefused) {
  const ShardOptions options = OneShardOptions(Sync(), kWorkers, kCount);
  const ShardState good = OneShard(options, kSeed).shard().Save();
  EXPECT_THAT(Shard::Restore(options, good), IsOk());
  for (int i = 0; i < 4; ++i) {
    ShardState state = good;
    if (i == 0) state.shard = 1;
    if (i == 1) state.offset = 4;
    if (i == 2) state.layout = 78;
    if (i == 3) state.workers.pop_back();
    EXPECT_THAT(Shard::Restore(options, state),
                StatusIs(StatusCode::kInvalidArgument, "the state is of shard"));
  }
  for (int i = 0; i < 6; ++i) {
    ShardState state = good;
    if (i == 0) state.parameters.reset();
    if (i == 1) state.parameters = std::make_shared<const std::vector<float>>(kCount - 1);
    if (i == 2) state.previous = std::make_shared<const std::vector<float>>(kCount + 1);
    if (i == 3) state.optimizer_state.pop_back();
    if (i == 4) state.staleness.resize(kWorkers);
    if (i == 5) state.version = -1;
    EXPECT_THAT(Shard::Restore(options, state),
                StatusIs(StatusCode::kDataLoss, "the state of version"));
  }
}

TEST(SavedState, IsNotTouchedByWhatFollows) {
  OneShard shard(OneShardOptions(Sync(), 1, kCount), kSeed);
  shard.Push(0, 1);
  const ShardState state = shard.shard().Save();
  const std::vector<float> parameters = *state.parameters;
  const std::vector<float> previous = *state.previous;
  for (int64_t step = 2; step <= 4; ++step) shard.Push(0, step);
  EXPECT_TRUE(SameBits(*state.parameters, parameters));
  EXPECT_TRUE(SameBits(*state.previous, previous));
  EXPECT_EQ(state.version, 1);
}

// The dedup state goes with it: what was applied before is a duplicate after.
TEST(SavedState, KnowsWhatWasApplied) {
  const ShardOptions options = OneShardOptions(Sync(), kWorkers, kCount);
  OneShard shard(options, kSeed);
  shard.Attach(1, 5);
  shard.Push(0, 1);
  shard.Push(1, 1, 0, 0, -1, 5);
  shard.Push(2, 1);
  OneShard restored(options, kSeed);
  restored.Become(shard.shard().Save(), {true, true, true});
  restored.Attach(0);
  EXPECT_THAT(RefusalOf(restored.Attach(1, 4)),
              StatusIs(StatusCode::kFailedPrecondition, "incarnation 4 is older than 5"));
  EXPECT_THAT(RefusalOf(restored.Push(0, 1)), IsOk());
  EXPECT_EQ(restored.shard().duplicates(), 1);
  EXPECT_EQ(restored.shard().version(), 1);
}

TEST(Copy, RefusesWhatIsNotNext) {
  OneShard copy(OneShardOptions(Sync(), 2, kCount), kSeed);
  const std::vector<float> sum(kCount, 1.0F);
  const auto apply = [&](const std::vector<UpdateId>& ids) {
    return copy.shard().ApplySum(ids, 1, sum, 0).status();
  };
  EXPECT_THAT(apply({{0, 1, 2, 0}, {1, 1, 1, 0}}),
              StatusIs(StatusCode::kFailedPrecondition, "names step 2 of worker 0"));
  EXPECT_THAT(apply({{1, 1, 1, 0}, {0, 1, 1, 0}}),
              StatusIs(StatusCode::kFailedPrecondition, "worker 0 after worker 1"));
  EXPECT_THAT(apply({{0, 1, 1, 0}, {0, 1, 1, 0}}),
              StatusIs(StatusCode::kFailedPrecondition, "worker 0 after worker 0"));
  EXPECT_THAT(apply({{0, 0, 1, 0}}), StatusIs(StatusCode::kFailedPrecondition, "incarnation 0"));
  EXPECT_THAT(apply({{0, 1, 1, 3}}), StatusIs(StatusCode::kFailedPrecondition, "shard 3"));
  EXPECT_THAT(apply({}), StatusIs(StatusCode::kFailedPrecondition, "0 pushes"));
  EXPECT_THAT(apply({{7, 1, 1, 0}}), StatusIs(StatusCode::kInvalidArgument, "worker 7"));
  EXPECT_THAT(copy.shard().ApplySum(std::vector<UpdateId>{{0, 1, 1, 0}}, 1, {1.0F}, 0),
              StatusIs(StatusCode::kFailedPrecondition, "1 elements, expected 7"));
  EXPECT_THAT(copy.shard().ApplyDrop({0, 1, 1, 0}),
              StatusIs(StatusCode::kFailedPrecondition, "which only K_OF_N does"));
  EXPECT_THAT(copy.shard().ApplySum(std::vector<UpdateId>{{0, 1, 1, 0}}, 2, sum, 0),
              StatusIs(StatusCode::kFailedPrecondition, "leads to round 2, this copy is in 0"));
  EXPECT_EQ(copy.shard().version(), 0);
  EXPECT_THAT(apply({{0, 1, 1, 0}, {1, 1, 1, 0}}), IsOk());
  EXPECT_THAT(copy.shard().ApplySum(std::vector<UpdateId>{{0, 1, 1, 0}}, 2, sum, 0),
              StatusIs(StatusCode::kFailedPrecondition, "names step 1 of worker 0"));
  Shard empty = *Shard::Create(OneShardOptions(Sync(), 2, kCount));
  EXPECT_THAT(empty.ApplySum(std::vector<UpdateId>{{0, 1, 1, 0}}, 1, sum, 0),
              StatusIs(StatusCode::kFailedPrecondition, "start values, which are not here"));
}

}  // namespace
}  // namespace lockstep
