#include "experiments/analyse/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/analyse/synthetic.h"

namespace lockstep {
namespace {

using synthetic::Config;
using synthetic::Files;
using synthetic::FilesOf;
using synthetic::ReaderOf;
using synthetic::Shape;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const Shape kPs = {.variant = "ps_sync", .servers = 2};

TEST(MergeRun, WholeRunIsComplete) {
  const RunRecord run = MergeRun(Config(kPs), ReaderOf(FilesOf(kPs)));
  EXPECT_TRUE(run.complete);
  EXPECT_THAT(run.problems, IsEmpty());
  ASSERT_THAT(run.workers, SizeIs(4));
  ASSERT_THAT(run.servers, SizeIs(2));
  EXPECT_THAT(run.workers[3].steps, SizeIs(20));
  EXPECT_THAT(run.workers[3].probes, SizeIs(2));
  EXPECT_EQ(run.workers[3].name, "worker 3");
  EXPECT_EQ(run.workers[3].set_up.sent_bytes(), 1'000);
  EXPECT_THAT(run.servers[1].applied, SizeIs(20));
  ASSERT_TRUE(run.servers[1].ended.has_value());
}

struct Damage {
  const char* name;
  void (*damage)(Files* files);
  const char* problem;
};

// What is missing is named, and what the others recorded stays.
class DamagedRun : public ::testing::TestWithParam<Damage> {};

TEST_P(DamagedRun, NamesWhatIsMissing) {
  Files files = FilesOf(kPs);
  GetParam().damage(&files);
  const RunRecord run = MergeRun(Config(kPs), ReaderOf(files));
  EXPECT_FALSE(run.complete);
  EXPECT_THAT(run.problems, ElementsAre(HasSubstr(GetParam().problem)));
  ASSERT_THAT(run.workers, SizeIs(4));
  ASSERT_THAT(run.servers, SizeIs(2));
  EXPECT_THAT(run.workers[0].steps, SizeIs(20));
}

constexpr Damage kDamages[] = {
    {"worker_file_missing",
     [](Files* f) {
       f->erase({"worker", 2});
     },
     "worker 2: no record: no such file"},
    {"server_file_missing",
     [](Files* f) {
       f->erase({"server", 1});
     },
     "server 1: no record"},
    {"file_empty",
     [](Files* f) {
       (*f)[{"worker", 1}].clear();
     },
     "worker 1: no start record"},
    {"killed_after_step_7",
     [](Files* f) {
       auto& records = (*f)[{"worker", 2}];
       records.resize(2 + 7);  // start, set-up, steps
     },
     "worker 2: record stops after step 7"},
    {"server_killed_after_step_5",
     [](Files* f) {
       auto& records = (*f)[{"server", 0}];
       records.resize(2 + 5);
     },
     "server 0: record stops after step 5"},
    {"ended_with_error",
     [](Files* f) {
       (*f)[{"worker", 3}].back() = synthetic::EndedRecord(20, 0, 14, "ring, rank 3 -> 0: reset");
     },
     "worker 3: ended with an error in step 20: ring, rank 3 -> 0: reset"},
    {"ended_early",
     [](Files* f) {
       auto& records = (*f)[{"worker", 1}];
       records.resize(2 + 6);
       records.push_back(synthetic::EndedRecord(6, 0));
     },
     "worker 1: ended after step 6 of 20"},
    {"of_another_block",
     [](Files* f) {
       (*f)[{"worker", 1}].front().mutable_started()->set_block(5);
     },
     "worker 1: record belongs to variant ps_sync, block 5"},
    {"of_another_member",
     [](Files* f) {
       (*f)[{"worker", 1}].front().mutable_started()->set_index(0);
     },
     "worker 1: record was written by worker 0"},
};
INSTANTIATE_TEST_SUITE_P(All, DamagedRun, ::testing::ValuesIn(kDamages),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(MergeRun, AGapEndsWhatCanBeUsed) {
  Files files = FilesOf(kPs);
  auto& records = files[{"worker", 1}];
  records.erase(records.begin() + 2 + 4);  // step 5
  const RunRecord run = MergeRun(Config(kPs), ReaderOf(files));
  EXPECT_FALSE(run.complete);
  ASSERT_FALSE(run.problems.empty());
  EXPECT_THAT(run.problems.front(), HasSubstr("worker 1: step 6 follows step 4"));
  EXPECT_THAT(run.workers[1].steps, SizeIs(4));
}

TEST(Names, AreThoseOfTheWay) {
  Variant variant;
  variant.set_name("x");
  EXPECT_EQ(ModeOf(variant), "");
  EXPECT_EQ(LabelOf(variant, 0), "x");
  variant.mutable_none();
  EXPECT_EQ(ModeOf(variant), "none");
  EXPECT_EQ(LabelOf(variant, 0), "No synchronisation");
  variant.mutable_ps();  // SYNC is the default
  EXPECT_EQ(ModeOf(variant), "ps_sync");
  EXPECT_EQ(AlgorithmOf(variant), "");
  EXPECT_EQ(LabelOf(variant, 2), "Parameter server, sync, 2 servers");
  EXPECT_EQ(LabelOf(variant, 1), "Parameter server, sync, 1 server");
  variant.mutable_all_reduce();  // so is RING
  EXPECT_EQ(ModeOf(variant), "all_reduce");
  EXPECT_EQ(AlgorithmOf(variant), "ring");
  EXPECT_EQ(LabelOf(variant, 0), "Ring all-reduce");
}

TEST(WarmupSteps, IsFiveOrATenth) {
  EXPECT_EQ(WarmupSteps(1), 0);
  EXPECT_EQ(WarmupSteps(9), 0);
  EXPECT_EQ(WarmupSteps(20), 2);
  EXPECT_EQ(WarmupSteps(50), 5);
  EXPECT_EQ(WarmupSteps(1'000), 5);
}

}  // namespace
}  // namespace lockstep
