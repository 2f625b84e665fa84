// Each promise broken once: the ledger says so, and says nothing of a good run.
#include "ps_server/core/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kSteps = 3;

std::vector<UpdateId> Of(int32_t worker, int64_t step) { return {{worker, 1, step, 0}}; }
std::vector<UpdateId> Both(int64_t step) { return {{0, 1, step, 0}, {1, 1, step, 0}}; }
uint64_t ContentOf(int64_t version) { return 1'000 + static_cast<uint64_t>(version); }

PsRules Rules(PsMode mode) {
  PsRules rules;
  rules.mode = mode;
  rules.staleness = 1;
  return rules;
}

// Server 0 is the head, server 1 its copy; two workers.
void Synchronous(Ledger* ledger) {
  for (int64_t step = 1; step <= kSteps; ++step) {
    for (const int32_t server : {0, 1}) {
      ledger->Applied(server, 1, 0, step, Both(step), ContentOf(step));
    }
    for (const int32_t worker : {0, 1}) ledger->Told(0, 1, 0, worker, step, step, step, false);
    ledger->Expect(0, step, ContentOf(step));
  }
  ledger->Final(0, kSteps, ContentOf(kSteps));
}
// Worker 0's step is version 2 step - 1, worker 1's the next one; one server.
void Asynchronous(Ledger* ledger) {
  for (int64_t step = 1; step <= kSteps; ++step) {
    for (const int32_t worker : {0, 1}) {
      const int64_t version = 2 * step - 1 + worker;
      ledger->Applied(0, 1, 0, version, Of(worker, step), ContentOf(version));
      ledger->Told(0, 1, 0, worker, step, version, worker == 0 ? step - 1 : step, false);
    }
  }
  ledger->Final(0, 2 * kSteps, ContentOf(2 * kSteps));
}

TEST(Ledger, SaysNothingOfAGoodRun) {
  Ledger sync(Rules(PsMode::kSync), 2, 1);
  Synchronous(&sync);
  EXPECT_THAT(sync.Check(kSteps), IsEmpty());
  Ledger bounded(Rules(PsMode::kBounded), 2, 1);
  Asynchronous(&bounded);
  EXPECT_THAT(bounded.Check(kSteps), IsEmpty());
  EXPECT_THAT(bounded.Surviving(0), SizeIs(2 * kSteps));
}

struct Violation {
  const char* name;
  PsMode mode;
  std::function<void(Ledger*)> plant;  // after a good run
  const char* says;
};
void PrintTo(const Violation& row, std::ostream* out) { *out << row.name; }
class Violations : public testing::TestWithParam<Violation> {};

TEST_P(Violations, AreNamed) {
  Ledger ledger(Rules(GetParam().mode), 2, 1);
  GetParam().mode == PsMode::kSync ? Synchronous(&ledger) : Asynchronous(&ledger);
  GetParam().plant(&ledger);
  const std::vector<std::string> broken = ledger.Check(kSteps);
  EXPECT_THAT(broken, testing::Contains(HasSubstr(GetParam().says)));
}

INSTANTIATE_TEST_SUITE_P(
    Planted, Violations,
    testing::Values(
        Violation{"twice", PsMode::kAsync,
                  [](Ledger* l) { l->Applied(0, 1, 0, 7, Of(1, 2), ContentOf(7)); },
                  "worker 1's push of step 2 is applied twice, in version 4 and in version 7"},
        Violation{"two_contents", PsMode::kSync,
                  [](Ledger* l) { l->Applied(1, 1, 0, 2, Both(2), 5); },
                  "version 2, server 1, epoch 1: two contents of one version"},
        Violation{"two_heads", PsMode::kSync,
                  [](Ledger* l) { l->Told(1, 1, 0, 0, 3, 3, 3, false); },
                  "servers 0 and 1 both acknowledge in epoch 1"},
        Violation{"goes_back", PsMode::kAsync,
                  [](Ledger* l) { l->Told(0, 2, 0, 1, 3, 5, 3, false); },
                  "worker 1 was given version 5 for step 3 in epoch 2, after version 6"},
        Violation{"lost", PsMode::kAsync,
                  [](Ledger* l) {
                    l->Applied(1, 2, 0, 5, Of(1, 3), 77);
                    l->Applied(1, 2, 0, 6, Of(0, 3), 78);
                  },
                  "worker 1 was told version 6 for step 3 by server 0 in epoch 1, but it was lost: "
                  "epoch 2 goes on from version 4"},
        Violation{"lost_at_the_end", PsMode::kAsync,
                  [](Ledger* l) {
                    l->Began(2, 0, 5, {3, 2});
                  },
                  "worker 1 was told version 6 for step 3 by server 0 in epoch 1, but it was lost: "
                  "epoch 2 goes on from version 5"},
        Violation{"ends_early", PsMode::kSync, [](Ledger* l) { l->Final(0, 2, ContentOf(2)); },
                  "it ends with version 2, but 3 have survived"},
        Violation{"ends_otherwise", PsMode::kSync, [](Ledger* l) { l->Final(0, 3, 4); },
                  "it ends with other parameters (4)"},
        Violation{"not_applied", PsMode::kAsync,
                  [](Ledger* l) { l->Told(0, 1, 0, 0, 4, 6, 3, false); },
                  "its push was not applied"},
        Violation{"not_in_it", PsMode::kAsync,
                  [](Ledger* l) { l->Told(0, 1, 0, 1, 3, 5, 3, false); },
                  "its push is part of version 6"},
        Violation{"bound", PsMode::kBounded, [](Ledger* l) { l->Told(0, 1, 0, 0, 3, 3, 3, false); },
                  "worker 0 read version 3 after step 3: it contains all steps up to 1, bound 1"},
        Violation{"bound_as_told", PsMode::kBounded,
                  [](Ledger* l) { l->Told(0, 1, 0, 0, 3, 6, 1, false); },
                  "it contains all steps up to 1, bound 1"},
        Violation{"step_of_another_version", PsMode::kSync,
                  [](Ledger* l) { l->Applied(0, 1, 0, 4, Both(5), ContentOf(4)); },
                  "version 4 is made of a push of step 5"},
        Violation{"other_bits", PsMode::kSync, [](Ledger* l) { l->Expect(0, 2, 9); },
                  "has other parameters (1002) than expected (9)"},
        Violation{"dropped_and_applied", PsMode::kKOfN,
                  [](Ledger* l) {
                    l->Dropped(1, 0, 6, {1, 1, 3, 0});
                  },
                  "is dropped at version 6 and applied in version 6"},
        Violation{"dropped_untold", PsMode::kKOfN,
                  [](Ledger* l) {
                    l->Dropped(1, 0, 6, {1, 1, 4, 0});
                    l->Told(0, 1, 0, 1, 4, 6, 3, false);
                  },
                  "but not that its push was dropped"},
        Violation{"told_dropped", PsMode::kKOfN,
                  [](Ledger* l) { l->Told(0, 1, 0, 1, 3, 6, 3, true); },
                  "and that its push was dropped, which it was not"},
        Violation{"gap", PsMode::kAsync, [](Ledger* l) { l->Applied(0, 1, 0, 9, Of(1, 4), 1); },
                  "but nobody made version 8"},
        Violation{"stranger", PsMode::kAsync,
                  [](Ledger* l) { l->Applied(0, 1, 5, 1, Of(1, 4), 1); },
                  "1 entries are of shards that do not exist"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Ledger, MissesAStep) {
  Ledger ledger(Rules(PsMode::kAsync), 2, 1);
  Asynchronous(&ledger);
  EXPECT_THAT(ledger.Check(kSteps + 1),
              ElementsAre(HasSubstr("worker 0's push of step 4 is neither applied nor dropped"),
                          HasSubstr("worker 1's push of step 4")));
}

TEST(Ledger, WhatNobodyWasToldMayBeMadeAnew) {
  Ledger ledger(Rules(PsMode::kAsync), 2, 1);
  Asynchronous(&ledger);
  ledger.Applied(0, 1, 0, 7, Of(0, 4), 70);  // its server dies before its copy has it
  ledger.Applied(1, 2, 0, 7, Of(1, 4), 71);
  ledger.Applied(1, 2, 0, 8, Of(0, 4), 72);
  EXPECT_THAT(ledger.Check(kSteps), ElementsAre(HasSubstr("it ends with version 6, but 8")));
  EXPECT_EQ(ledger.Surviving(0)[6][0].worker, 1);
}

// A head may die with an update that nobody was told of, and the others need not make another.
TEST(Ledger, WhatNobodyWasToldMayBeLostAtTheEnd) {
  Ledger ledger(Rules(PsMode::kAsync), 2, 1);
  Asynchronous(&ledger);
  ledger.Applied(0, 1, 0, 7, Of(0, 4), 70);
  EXPECT_THAT(ledger.Check(kSteps), ElementsAre(HasSubstr("it ends with version 6, but 7")));
  ledger.Began(2, 0, 6, {3, 3});
  EXPECT_THAT(ledger.Check(kSteps), IsEmpty());
}

TEST(Ledger, WhatARewindVoidsIsMadeAgain) {
  Ledger ledger(Rules(PsMode::kSync), 2, 1);
  Synchronous(&ledger);
  ledger.Rewound(2, 0, 1, {1, 1});
  EXPECT_THAT(ledger.Check(kSteps), testing::Contains(HasSubstr("it ends with version 3, but 1")));
  for (int64_t step = 2; step <= kSteps; ++step) {
    ledger.Applied(1, 2, 0, step, Both(step), ContentOf(step));
    for (const int32_t worker : {0, 1}) ledger.Told(1, 2, 0, worker, step, step, step, false);
  }
  EXPECT_THAT(ledger.Check(kSteps), IsEmpty());
}

// A drop makes no version: one at the version that the run went back to was not saved with it, or
// was; what each worker's last step was says which.
TEST(Ledger, ARewindVoidsADropThatItsVersionDoesNotHave) {
  const auto run = [](int64_t last_step_saved) {
    Ledger ledger(Rules(PsMode::kKOfN), 2, 1);
    ledger.Applied(0, 1, 0, 1, Of(0, 1), 10);
    ledger.Told(0, 1, 0, 0, 1, 1, 1, false);
    ledger.Dropped(1, 0, 1, {1, 1, 1, 0});
    ledger.Told(0, 1, 0, 1, 1, 1, 1, true);
    ledger.Rewound(2, 0, 1, {1, last_step_saved});
    ledger.Applied(0, 2, 0, 2, Of(1, 1), 20);
    ledger.Told(0, 2, 0, 1, 1, 2, 1, false);
    ledger.Final(0, 2, 20);
    return ledger.Check(1);
  };
  EXPECT_THAT(run(0), IsEmpty());
  EXPECT_THAT(run(1),
              testing::Contains(HasSubstr("is dropped at version 1 and applied in version 2")));
}

TEST(Ledger, WhoMissedStepsDoesNotOweThem) {
  Ledger ledger(Rules(PsMode::kBounded), 2, 1);
  Asynchronous(&ledger);
  EXPECT_THAT(ledger.Check(kSteps + 1), testing::Contains(HasSubstr("neither applied")));
  for (const int32_t worker : {0, 1}) ledger.Skipped(0, worker, kSteps + 1);
  EXPECT_THAT(ledger.Check(kSteps + 1), IsEmpty());
  ledger.Skipped(0, 0, kSteps);
  EXPECT_THAT(ledger.Check(kSteps + 1),
              testing::Contains(HasSubstr("worker 0's step 3 is skipped and is part of")));
}

TEST(Ledger, SaysAtMostTwenty) {
  Ledger ledger(Rules(PsMode::kAsync), 2, 1);
  Asynchronous(&ledger);
  for (int i = 0; i < 50; ++i) ledger.Told(0, 1, 0, 0, 9, 6, 3, false);
  EXPECT_THAT(ledger.Check(kSteps), SizeIs(20));
}

}  // namespace
}  // namespace lockstep
