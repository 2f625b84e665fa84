// Message faults of a plan: rules that are armed between two calls strike the messages of the next
// one alone, and say so before they do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/allreduce/failing.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kDelayMs = 60;

// Two ranks; the messages of rank 0 are those that are struck.
class ArmedFaultTest : public testing::TestWithParam<Transport> {
 protected:
  ArmedFaultTest() {
    armed_.strikes = [this](int tag) { struck_.push_back(tag); };
    std::vector<std::unique_ptr<Link>> links = MakeLinks(GetParam(), 2, 1, limits_, clock_, abort_);
    links[0] = MakeFaultLink(std::move(links[0]), {}, clock_, &armed_);
    CommunicatorOptions options;
    options.limits = limits_;
    for (std::unique_ptr<Link>& link : links) {
      ranks_.push_back(MakeHostCommunicator(std::move(link), clock_, options));
    }
  }

  void Arm(std::vector<FaultRule> rules) {
    armed_.rules = std::move(rules);
    armed_.armed = true;
  }
  static FaultRule Delay(int64_t first, int tag) {
    return {
        .fault = LinkFault::kDelay, .peer = 1, .first = first, .delay_ms = kDelayMs, .tag = tag};
  }
  // How long it takes.
  int64_t CallMs() {
    const int64_t start_ns = clock_.NowNs();
    OnEachRank(2, [&](int rank) {
      EXPECT_THAT(AllReduceOnes(ranks_[static_cast<size_t>(rank)].get(), 100), IsOk());
    });
    return ElapsedMs(clock_, start_ns);
  }

  const MonotonicClock clock_;
  Abort abort_;
  const Limits limits_ = TestLimits();
  ArmedFaults armed_;
  std::vector<int> struck_;  // tags, in order
  std::vector<std::unique_ptr<Communicator>> ranks_;
};

TEST_P(ArmedFaultTest, StrikesTheNextCallOnceAndSaysSo) {
  CallMs();
  EXPECT_THAT(struck_, IsEmpty());
  Arm({Delay(0, 7)});
  EXPECT_GE(CallMs(), kDelayMs);
  EXPECT_THAT(struck_, ElementsAre(7));
  EXPECT_FALSE(armed_.armed);
  CallMs();
  CallMs();
  EXPECT_THAT(struck_, ElementsAre(7)) << "its messages have passed";
}

// A ring of two ranks sends two messages a call: the rule counts from the call that it was armed
// for.
TEST_P(ArmedFaultTest, CountsFromWhereItWasArmed) {
  CallMs();
  CallMs();
  Arm({Delay(1, 3), Delay(0, 2)});
  CallMs();
  EXPECT_THAT(struck_, ElementsAre(2, 3));
}

// What its call did not send is not owed by the next one, once that has rules of its own.
TEST_P(ArmedFaultTest, ArmingAgainForgetsWhatDidNotStrike) {
  Arm({Delay(50, 1)});
  CallMs();
  Arm({});
  for (int call = 0; call < 30; ++call) CallMs();
  EXPECT_THAT(struck_, IsEmpty());
}

TEST_P(ArmedFaultTest, ADropIsToldByTheOtherSide) {
  CallMs();
  Arm({{.fault = LinkFault::kDrop, .peer = 1, .tag = 4}});
  std::vector<absl::Status> statuses(2);
  OnEachRank(2, [&](int rank) {
    statuses[static_cast<size_t>(rank)] = AllReduceOnes(ranks_[static_cast<size_t>(rank)].get(), 8);
  });
  ExpectAll(statuses, absl::StatusCode::kInvalidArgument, {"from rank 0"});
  EXPECT_THAT(struck_, ElementsAre(4));
}

INSTANTIATE_TEST_SUITE_P(All, ArmedFaultTest,
                         testing::Values(Transport::kInProcess, Transport::kTcp, Transport::kShm),
                         [](const auto& test) { return NameOf(test.param); });

}  // namespace
}  // namespace lockstep
