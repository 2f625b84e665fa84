#include "experiments/analyse/run_record.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
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
  EXPECT_EQ(run.workers[3].set_up.traffic().sent_bytes(), 1'000);
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

// Servers that only sum write steps as workers do, and end where workers end.
TEST(MergeRun, AServerOfAScheduleRecordsSteps) {
  const Shape shape = {.variant = "ps_schedule", .servers = 2};
  RunRecord run = synthetic::Run(shape);
  EXPECT_TRUE(run.complete);
  EXPECT_THAT(run.servers[1].steps, SizeIs(20));
  run = synthetic::RunWith(shape, [](Files* files) {
    auto& records = (*files)[{"server", 1}];
    records.resize(2 + 7);
    records.push_back(synthetic::EndedRecord(7, 0));
  });
  EXPECT_THAT(run.problems, ElementsAre("server 1: ended after step 7 of 20"));
}

struct NameCase {
  const char* name;
  const char* text;  // Variant
  int servers;
  const char* mode;
  const char* algorithm;
  const char* rate;
  const char* label;
};
class Names : public ::testing::TestWithParam<NameCase> {};

TEST_P(Names, AreThoseOfTheWay) {
  const NameCase& want = GetParam();
  Variant variant;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(want.text, &variant));
  EXPECT_EQ(ModeOf(variant), want.mode);
  EXPECT_EQ(AlgorithmOf(variant), want.algorithm);
  EXPECT_EQ(RateOf(variant), want.rate);
  EXPECT_EQ(LabelOf(variant, want.servers), want.label);
}

INSTANTIATE_TEST_SUITE_P(
    All, Names,
    ::testing::Values(
        NameCase{"unset", "name: 'x'", 0, "", "", "", "x"},
        NameCase{"none", "none {}", 0, "none", "", "", "No synchronisation"},
        NameCase{"ps_sync", "ps {}", 2, "ps_sync", "", "", "Parameter server, sync, 2 servers"},
        NameCase{"one_server", "ps {}", 1, "ps_sync", "", "", "Parameter server, sync, 1 server"},
        NameCase{"ps_async", "ps { mode: ASYNC }", 2, "ps_async", "", "r/n",
                 "Parameter server, async, 2 servers, rate r/n"},
        NameCase{"full_rate", "ps { mode: ASYNC rate: FULL }", 2, "ps_async", "", "r",
                 "Parameter server, async, 2 servers, rate r"},
        NameCase{"ring", "all_reduce {}", 0, "all_reduce", "ring", "", "Ring all-reduce"},
        NameCase{"channels", "all_reduce { channels: 2 }", 0, "all_reduce", "ring", "",
                 "Ring all-reduce, 2 channels"},
        NameCase{"naive", "all_reduce { algorithm: NAIVE }", 0, "all_reduce", "naive", "",
                 "Naive all-to-all"},
        NameCase{"tree", "all_reduce { algorithm: TREE channels: 3 }", 0, "all_reduce", "tree", "",
                 "Tree all-reduce, pipelined, 3 channels"},
        NameCase{"ps_schedule", "all_reduce { algorithm: PS_EXCHANGE }", 2, "all_reduce",
                 "ps_exchange", "", "Parameter-server exchange as a schedule, 2 servers"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(WarmupSteps, IsFiveOrATenth) {
  EXPECT_EQ(WarmupSteps(1), 0);
  EXPECT_EQ(WarmupSteps(9), 0);
  EXPECT_EQ(WarmupSteps(20), 2);
  EXPECT_EQ(WarmupSteps(50), 5);
  EXPECT_EQ(WarmupSteps(1'000), 5);
}

}  // namespace
}  // namespace lockstep
