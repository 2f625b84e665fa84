#include "experiments/cli/remaining.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/clock.h"

namespace lockstep {
namespace {

// Runs end after the given milliseconds.
class Comparison {
 public:
  explicit Comparison(std::vector<std::string> plan) : remaining_(std::move(plan)) {
    remaining_.BeginRun(clock_.NowNs());
  }
  void Run(int64_t ms) {
    clock_.AdvanceMs(ms);
    remaining_.EndRun(clock_.NowNs());
    remaining_.BeginRun(clock_.NowNs());
  }
  void Pass(int64_t ms) { clock_.AdvanceMs(ms); }
  std::optional<double> Left(double share = 0) const {
    return remaining_.SecondsLeft(clock_.NowNs(), share);
  }

 private:
  ManualClock clock_;
  RemainingTime remaining_;
};

TEST(RemainingTimeTest, NothingIsKnownBeforeTheFirstStep) {
  Comparison comparison({"ring", "ring"});
  comparison.Pass(400);
  EXPECT_FALSE(comparison.Left().has_value());
}

TEST(RemainingTimeTest, TheFirstRunGoesByItsOwnSteps) {
  Comparison comparison({"ring", "tree", "ring"});
  comparison.Pass(1'000);
  EXPECT_DOUBLE_EQ(*comparison.Left(0.25), 3 + 2 * 4);
}

TEST(RemainingTimeTest, EveryKindGoesByItsOwnFinishedRuns) {
  Comparison comparison({"ring", "tree", "tree", "ring", "ring"});
  comparison.Run(1'000);
  comparison.Run(5'000);
  EXPECT_DOUBLE_EQ(*comparison.Left(), 5 + 1 + 1);
  comparison.Pass(2'000);
  EXPECT_DOUBLE_EQ(*comparison.Left(0.9), 3 + 1 + 1) << "finished runs tell more than its steps";
  comparison.Run(5'000);  // 7 s in all: trees take 6 s on average now
  EXPECT_DOUBLE_EQ(*comparison.Left(), 1 + 1);
}

TEST(RemainingTimeTest, AKindThatHasNotRunGoesByAllOthers) {
  Comparison comparison({"ring", "tree", "naive", "tree"});
  comparison.Run(2'000);
  comparison.Run(4'000);
  EXPECT_DOUBLE_EQ(*comparison.Left(), 3 + 4);
  comparison.Pass(1'000);
  EXPECT_DOUBLE_EQ(*comparison.Left(0.5), 1 + 4) << "its own steps tell more than other kinds";
}

TEST(RemainingTimeTest, ARunThatTakesLongerIsNotNegative) {
  Comparison comparison({"ring", "ring", "ring"});
  comparison.Run(1'000);
  comparison.Pass(9'000);
  EXPECT_DOUBLE_EQ(*comparison.Left(), 1);
}

TEST(RemainingTimeTest, NothingIsLeftAtTheEnd) {
  Comparison comparison({"ring"});
  comparison.Run(1'000);
  EXPECT_DOUBLE_EQ(*comparison.Left(), 0);
}

TEST(AboutLeftTest, RoundsUp) {
  EXPECT_EQ(AboutLeft(0), "about 0 s left");
  EXPECT_EQ(AboutLeft(6.2), "about 7 s left");
  EXPECT_EQ(AboutLeft(37), "about 40 s left");
  EXPECT_EQ(AboutLeft(121), "about 3 min left");
  EXPECT_EQ(AboutLeft(7'201), "about 3 h left");
}

}  // namespace
}  // namespace lockstep
