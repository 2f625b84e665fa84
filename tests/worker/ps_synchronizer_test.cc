// What a worker of parameter servers begins with and takes along, against a client that a test
// scripts: first group, later ones, replacements, pulls that were cut short, and the optimizer on
// the worker.
#include "worker/sync/ps_synchronizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::Each;
using testing::ElementsAre;

// Servers that hold 100 * step + `lift` after each step.
struct Script {
  bool initialized = false;
  ResumePoint resume = {};
  absl::Status resume_status = {};
  absl::Status pull_status = {};
  bool torn = false;
  float lift = 0;
};

// Shared with the test, which outlives the synchronizer.
struct Seen {
  std::vector<std::string> calls;
  std::vector<float> start_values;
};

class ScriptedClient final : public PsClient {
 public:
  ScriptedClient(Script script, Seen* seen) : script_(std::move(script)), seen_(seen) {}

  bool initialized() const override { return script_.initialized; }
  int64_t resume_step() const override { return script_.resume.step; }
  absl::StatusOr<ResumePoint> Resume(std::optional<int64_t> own, bool restored) const override {
    seen_->calls.push_back(absl::StrCat("resume ", own.value_or(kNoState), restored ? " r" : ""));
    if (!script_.resume_status.ok()) return script_.resume_status;
    return script_.resume;
  }
  absl::Status Init(std::span<const float> parameters) override {
    seen_->calls.push_back("init");
    seen_->start_values.assign(parameters.begin(), parameters.end());
    return absl::OkStatus();
  }
  absl::Status Push(int64_t step, int64_t offset, std::span<const float> gradients) override {
    seen_->calls.push_back(absl::StrCat("push ", step, " at ", offset, " + ", gradients.size()));
    return absl::OkStatus();
  }
  absl::Status Pull(int64_t step, std::span<float> parameters) override {
    seen_->calls.push_back(absl::StrCat("pull ", step));
    RETURN_IF_ERROR(script_.pull_status);
    std::fill(parameters.begin(), parameters.end(),
              100.0F * static_cast<float>(step) + script_.lift);
    return absl::OkStatus();
  }
  absl::Status PushRows(int64_t /*step*/, int32_t /*tensor*/, std::span<const int64_t> /*rows*/,
                        std::span<const float> /*gradients*/) override {
    return absl::UnimplementedError("the synchronizer pushes whole gradients");
  }
  absl::Status PullRows(int64_t /*step*/, int32_t /*tensor*/, std::span<const int64_t> /*rows*/,
                        std::span<float> /*parameters*/) override {
    return absl::UnimplementedError("the synchronizer pulls whole shards");
  }
  bool torn() const override { return script_.torn; }
  std::vector<int64_t> versions() const override { return {4, 5}; }
  int64_t rejected() const override { return 0; }
  absl::StatusOr<LinkCost> MeasureLink() override {
    seen_->calls.push_back("measure");
    return LinkCost{.link = "grpc"};
  }
  Traffic traffic() const override { return {}; }

 private:
  const Script script_;
  Seen* const seen_;
};

struct BeginCase {
  const char* name;
  int rank;
  Script script;
  PsSynchronizerOptions options;
  int64_t step;                    // that the run goes on after
  float parameters;                // 7: the worker's own
  std::vector<std::string> calls;  // of the client
};
void PrintTo(const BeginCase& row, std::ostream* out) { *out << row.name; }
class BeginTest : public testing::TestWithParam<BeginCase> {};

TEST_P(BeginTest, BringsTheStateThatTheRunGoesOnWith) {
  const BeginCase& row = GetParam();
  Seen seen;
  PsSynchronizer sync(std::make_unique<ScriptedClient>(row.script, &seen), row.rank, row.options);
  std::vector<float> parameters = {7, 7, 7};
  const auto step = sync.Begin(parameters);
  ASSERT_THAT(step, IsOk());
  EXPECT_EQ(*step, row.step);
  EXPECT_THAT(parameters, Each(row.parameters));
  EXPECT_EQ(seen.calls, row.calls);
  EXPECT_EQ(sync.set_up().link.has_value(), row.calls[0] == "measure");
  if (std::count(row.calls.begin(), row.calls.end(), "init") > 0) {
    EXPECT_THAT(seen.start_values, Each(7.0F));
  }
  const HeldState held = sync.Held(*step);
  EXPECT_EQ(held.step, *step);
  EXPECT_FALSE(held.rewound);
  EXPECT_THAT(held.versions, ElementsAre(4, 5));
}

PsSynchronizerOptions Later(int64_t own, bool rewound = false) {
  PsSynchronizerOptions options;
  options.first_group = false;
  options.held.step = own;
  options.held.rewound = rewound;
  return options;
}
PsSynchronizerOptions KeepsOwnStart() {
  PsSynchronizerOptions options;
  options.broadcast_start = false;
  return options;
}

INSTANTIATE_TEST_SUITE_P(
    Rows, BeginTest,
    testing::Values(
        BeginCase{"FirstGroup", 0, {.lift = 1}, {}, 0, 1, {"measure", "init", "pull 0"}},
        BeginCase{"FirstGroupOthers", 2, {.lift = 1}, {}, 0, 1, {"pull 0"}},
        BeginCase{"OthersAfterRankZero",
                  2,
                  {.initialized = true, .resume = {0, true}, .lift = 1},
                  {},
                  0,
                  1,
                  {"resume -1", "pull 0"}},
        BeginCase{"OwnStartValues", 2, {}, KeepsOwnStart(), 0, 7, {"pull 0"}},
        BeginCase{"Survivor",
                  0,
                  {.initialized = true, .resume = {6, false}},
                  Later(6),
                  6,
                  7,
                  {"resume 6"}},
        BeginCase{"SurvivorPulls",
                  1,
                  {.initialized = true, .resume = {6, true}},
                  Later(5),
                  6,
                  600,
                  {"resume 5", "pull 6"}},
        BeginCase{"Replacement",
                  1,
                  {.initialized = true, .resume = {6, true}},
                  Later(kNoState),
                  6,
                  600,
                  {"resume -1", "pull 6"}},
        BeginCase{"Rewound",
                  1,
                  {.initialized = true, .resume = {3, true}},
                  Later(6, true),
                  3,
                  300,
                  {"resume 6 r", "pull 3"}},
        // The loss came before anybody had made a step, and before the start values were there.
        BeginCase{"StartValuesAgain", 0, {.lift = 1}, Later(0), 0, 1, {"init", "pull 0"}}),
    [](const auto& row) { return row.param.name; });

TEST(PsSynchronizerTest, ServersThatLostEverythingAreAnError) {
  Seen seen;
  PsSynchronizer sync(std::make_unique<ScriptedClient>(Script{}, &seen), 1, Later(6));
  std::vector<float> parameters = {7};
  EXPECT_THAT(sync.Begin(parameters),
              StatusIs(StatusCode::kDataLoss,
                       "worker 1 has made step 6, but some shard has no start values"));
}

TEST(PsSynchronizerTest, WhatTheClientMissesIsPassedOn) {
  Seen seen;
  Script script{.initialized = true};
  script.resume_status = absl::DataLossError("acknowledged updates are lost");
  PsSynchronizer sync(std::make_unique<ScriptedClient>(script, &seen), 1, Later(6));
  std::vector<float> parameters = {7};
  EXPECT_THAT(sync.Begin(parameters), StatusIs(StatusCode::kDataLoss, "acknowledged"));
}

struct HeldCase {
  const char* name;
  int64_t own;   // before this group
  bool rewound;  // likewise
  bool begins;   // Begin gets through
  bool torn;     // the pull that failed had begun to write
  int64_t held;  // afterwards, with step 9 the last finished one
  bool held_rewound;
};
void PrintTo(const HeldCase& row, std::ostream* out) { *out << row.name; }
class HeldTest : public testing::TestWithParam<HeldCase> {};

TEST_P(HeldTest, SaysWhoseParametersTheWorkerHas) {
  const HeldCase& row = GetParam();
  Seen seen;
  Script script{.initialized = true, .resume = {8, !row.begins}, .torn = row.torn};
  script.pull_status = absl::UnavailableError("server 1 is gone");
  PsSynchronizer sync(std::make_unique<ScriptedClient>(script, &seen), 1,
                      Later(row.own, row.rewound));
  std::vector<float> parameters = {7};
  EXPECT_EQ(sync.Begin(parameters).ok(), row.begins);
  if (row.begins) {
    std::vector<float> gradients = {1};
    EXPECT_THAT(sync.Finish(10, gradients, parameters),
                StatusIs(StatusCode::kUnavailable, "server 1 is gone"));
  }
  const HeldState held = sync.Held(9);
  EXPECT_EQ(held.step, row.held);
  EXPECT_EQ(held.rewound, row.held_rewound);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, HeldTest,
    testing::Values(HeldCase{"PullFailedBeforeItWrote", 8, false, true, false, 9, false},
                    HeldCase{"PullCutShort", 8, false, true, true, kNoState, false},
                    HeldCase{"GroupDidNotBegin", 8, true, false, false, 8, true},
                    HeldCase{"BeginCutShort", 8, true, false, true, kNoState, true},
                    // Parts of two versions from the group before, and this one did not begin.
                    HeldCase{"StillNothing", kNoState, false, false, false, kNoState, false},
                    HeldCase{"RewindIsOver", 8, true, true, false, 9, false}),
    [](const auto& row) { return row.param.name; });

TEST(PsSynchronizerTest, PushesBucketsAndPullsTheStep) {
  Seen seen;
  PsSynchronizer sync(std::make_unique<ScriptedClient>(Script{}, &seen), 1);
  std::vector<float> parameters(10);
  std::vector<float> gradients(10);
  ASSERT_THAT(sync.Begin(parameters), IsOk());
  seen.calls.clear();
  ASSERT_THAT(sync.GradientReady(1, {.index = 0, .offset = 6, .count = 4}, gradients), IsOk());
  ASSERT_THAT(sync.GradientReady(1, {.index = 1, .offset = 0, .count = 6}, gradients), IsOk());
  ASSERT_THAT(sync.Finish(1, gradients, parameters), IsOk());
  EXPECT_THAT(seen.calls, ElementsAre("push 1 at 6 + 4", "push 1 at 0 + 6", "pull 1"));
  EXPECT_THAT(parameters, Each(100.0F));
  EXPECT_TRUE(sync.optimizer_state().empty());
}

// optimizer_on: WORKER. The reply is the sum, divided; the worker makes the update, and its own
// parameters stay its own.
TEST(PsSynchronizerTest, AppliesTheSumItselfWhereTheOptimizerIsOnTheWorker) {
  Seen seen;
  PsSynchronizerOptions options;
  options.optimizer = OptimizerOptions{.learning_rate = 0.5F, .momentum = 0.5F};
  PsSynchronizer sync(std::make_unique<ScriptedClient>(Script{}, &seen), 1, options);
  std::vector<float> parameters(3);
  std::vector<float> gradients(3, 9.0F);
  ASSERT_THAT(sync.Begin(parameters), IsOk());
  EXPECT_THAT(sync.optimizer_state(), Each(0.0F));
  ASSERT_THAT(sync.Finish(1, gradients, parameters), IsOk());  // v = 100
  EXPECT_THAT(parameters, Each(-50.0F));
  ASSERT_THAT(sync.Finish(2, gradients, parameters), IsOk());  // v = 50 + 200
  EXPECT_THAT(parameters, Each(-175.0F));
  EXPECT_THAT(sync.optimizer_state(), Each(250.0F));
  EXPECT_THAT(gradients, Each(9.0F));
}

TEST(PsSynchronizerTest, TheWorkersAdamCountsItsSteps) {
  Seen seen;
  OptimizerOptions adam{.learning_rate = 0.25F, .kind = OptimizerKind::kAdam};
  PsSynchronizerOptions options;
  options.optimizer = adam;
  PsSynchronizer sync(std::make_unique<ScriptedClient>(Script{}, &seen), 1, options);
  std::vector<float> parameters(2);
  std::vector<float> gradients(2);
  ASSERT_THAT(sync.Begin(parameters), IsOk());
  std::vector<float> expected(2);
  std::vector<float> state(4);
  for (int64_t step = 1; step <= 3; ++step) {
    ASSERT_THAT(sync.Finish(step, gradients, parameters), IsOk());
    const std::vector<float> sum(2, 100.0F * static_cast<float>(step));
    OptimizerStep(adam, step, sum.data(), state.data(), 2, expected.data(), expected.data(), 2);
    EXPECT_EQ(parameters, expected) << "step " << step;
  }
}

}  // namespace
}  // namespace lockstep
