// Random fault schedules from fixed seeds, on real processes: no hang, no wrong result, and where
// the run stops, the right rank in every survivor's error. 20 in the full tier, 200 in long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/system/fault_run.h"

namespace lockstep {
namespace {

#ifdef LOCKSTEP_LONG_TIER
constexpr uint64_t kSchedules = 200;
#else
constexpr uint64_t kSchedules = 20;
#endif
constexpr int kSteps = 20;
constexpr double kElapsedMaxS = 30;  // every bound together, on a busy machine

class Drawn {
 public:
  explicit Drawn(uint64_t seed) : random_(seed) {
    static constexpr const char* kAlgorithms[] = {"RING",        "TREE",
                                                  "NAIVE",       "STAR",
                                                  "DOUBLE_TREE", "HALVING_DOUBLING",
                                                  "DIRECT",      "RECURSIVE_DOUBLING"};
    static constexpr const char* kPolicies[] = {"STOP", "SHRINK", "REPLACE"};
    static constexpr const char* kKinds[] = {"KILL", "KILL",      "FREEZE",  "FREEZE",
                                             "DROP", "DUPLICATE", "CORRUPT", "DELAY"};
    // The policy and the kind run through all pairs; the rest is drawn.
    options_.on_loss = kPolicies[seed % 3];
    kind_ = kKinds[seed / 3 % 8];
    options_.algorithm = kAlgorithms[Draw(0, 7)];
    options_.workers = Draw(3, 4);
    options_.steps = kSteps;
    victim_ = Draw(0, options_.workers - 1);
    is_long_ = Draw(0, 1) == 1;
    options_.faults.push_back(FaultText());
  }

  const FaultRunOptions& options() const { return options_; }
  int victim() const { return victim_; }
  // The victim is lost for good.
  bool loses() const { return kind_ == "KILL" || (kind_ == "FREEZE" && is_long_); }
  // Others may fail of it, or not even notice.
  bool strikes_message() const {
    return kind_ == "DROP" || kind_ == "DUPLICATE" || kind_ == "CORRUPT";
  }
  std::string ToString() const {
    return absl::StrCat(options_.algorithm, ", ", options_.on_loss, ", ", options_.workers,
                        " workers, ", options_.faults.front());
  }

 private:
  int Draw(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }

  std::string FaultText() {
    std::string text = absl::StrCat("target: \"worker:", victim_, "\" at { step: ", Draw(1, kSteps),
                                    " } kind: ", kind_);
    if (kind_ == "FREEZE") absl::StrAppend(&text, is_long_ ? " for: \"30s\"" : " for: \"200ms\"");
    if (kind_ == "DELAY") absl::StrAppend(&text, " for: \"150ms\"");
    if (kind_ == "KILL" || kind_ == "FREEZE") {
      if (Draw(0, 1) == 1) absl::StrAppend(&text, " after_bucket: ", Draw(0, 2));
    } else {
      const int to = (victim_ + Draw(1, options_.workers - 1)) % options_.workers;
      absl::StrAppend(&text, " message { to: ", to, " nth: ", Draw(0, 3), " }");
    }
    return text;
  }

  std::mt19937_64 random_;
  FaultRunOptions options_;
  std::string kind_;
  int victim_ = 0;
  bool is_long_ = false;
};

class RandomFaultsTest : public testing::TestWithParam<uint64_t> {
 protected:
  static Undisturbed& Reference() {
    static Undisturbed reference;
    return reference;
  }
};

void ExpectTheVictimNamed(const Drawn& drawn, const FaultRun& run) {
  EXPECT_EQ(run.result().exit_code, 3) << run.result().out;
  ASSERT_GE(run.run().failures_size(), 1);
  EXPECT_EQ(run.run().failures(0).member(), absl::StrCat("worker ", drawn.victim()));
  for (int index = 0; index < drawn.options().workers; ++index) {
    if (index == drawn.victim()) continue;
    ASSERT_TRUE(run.worker(index).back().has_ended()) << "worker " << index;
    EXPECT_THAT(
        run.worker(index).back().ended().message(),
        testing::ContainsRegex(absl::StrCat("(worker|ranks?) ([0-9]+, )*", drawn.victim(), "\\b")))
        << "worker " << index;
  }
}

TEST_P(RandomFaultsTest, NoHangAndNoWrongResult) {
  const Drawn drawn(GetParam());
  const FaultRunOptions& options = drawn.options();
  SCOPED_TRACE(drawn.ToString());
  const FaultRun run(options);
  ASSERT_FALSE(run.result().timed_out);
  EXPECT_LT(run.result().elapsed_s, kElapsedMaxS);
  const bool stops = options.on_loss == "STOP";
  if (drawn.loses() && stops) return ExpectTheVictimNamed(drawn, run);
  if (drawn.strikes_message() && run.result().exit_code != 0) {
    // Two ranks disagree about a message: a broken promise of the transport, told by both names.
    EXPECT_EQ(run.run().state(), "failed");
    EXPECT_GE(run.run().failures_size(), 1);
    return;
  }
  ASSERT_EQ(run.result().exit_code, 0) << run.result().out << run.result().err;
  const bool shrank = drawn.loses() && options.on_loss == "SHRINK";
  const int survivor = drawn.victim() == 0 ? 1 : 0;
  const std::string hash =
      shrank ? run.FinalHash(survivor) : Reference().HashOf(options.algorithm, options.workers);
  EXPECT_NE(hash, "");
  for (int index = 0; index < options.workers; ++index) {
    const bool lost = shrank && index == drawn.victim();
    EXPECT_EQ(run.FinalHash(index), lost ? "" : hash) << "worker " << index;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomFaultsTest, testing::Range(uint64_t{0}, kSchedules));

}  // namespace
}  // namespace lockstep
