#include "experiments/analyse/replicas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "tests/experiments/analyse/synthetic.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using synthetic::Files;
using synthetic::FilesOf;
using synthetic::RunOf;
using synthetic::RunWith;
using synthetic::Shape;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

VariantResult Check(const std::vector<RunRecord>& runs, const SnapshotReader& snapshots = nullptr) {
  std::vector<const RunRecord*> pointers;
  pointers.reserve(runs.size());
  for (const RunRecord& run : runs) pointers.push_back(&run);
  VariantResult result;
  AggregateReplicas(pointers, snapshots, &result);
  return result;
}

Probed* ProbeAt(Files* files, int rank, int step) {
  for (Record& record : (*files)[{"worker", rank}]) {
    if (record.has_probed() && record.probed().step() == step) return record.mutable_probed();
  }
  return nullptr;
}

TEST(AggregateReplicas, EqualHashesAreIdentical) {
  const VariantResult result = Check({synthetic::Run({.variant = "ring"})});
  EXPECT_EQ(result.replicas().state(), "identical");
  EXPECT_FALSE(result.replicas().has_first_diff_step());
  ASSERT_EQ(result.replicas().probes_size(), 2);
  EXPECT_THAT(result.replicas().probes(1).hash(), ElementsAre("h20", "h20", "h20", "h20"));
  EXPECT_EQ(result.final_hash(), "h20");
  EXPECT_TRUE(result.repeated_hash_equal());
  // Equal bits are exactly 0 apart, with no copies to measure.
  EXPECT_TRUE(result.replicas().max_rel().has_number_value());
  EXPECT_EQ(result.replicas().max_rel().number_value(), 0);
  EXPECT_TRUE(result.replicas().probes(1).has_max_rel());
}

TEST(AggregateReplicas, ADistanceNeedsCopiesWhereHashesDiffer) {
  const VariantResult result = Check({synthetic::Run({.variant = "none"})});
  EXPECT_EQ(result.replicas().state(), "diverged");
  EXPECT_TRUE(result.replicas().max_rel().has_null_value());
  EXPECT_THAT(result.replicas().max_rel_reason(), HasSubstr("copies were not kept"));
  EXPECT_FALSE(result.replicas().probes(1).has_max_rel());
}

TEST(AggregateReplicas, OneDifferentHashIsADifferenceFromThatStepOn) {
  const Shape shape = {.variant = "ring", .steps = 30};
  Files files = FilesOf(shape);
  ProbeAt(&files, 3, 20)->set_parameters_hash("other");
  const VariantResult result = Check({synthetic::Run(shape), RunOf(shape, files)});
  EXPECT_EQ(result.replicas().state(), "diverged");
  EXPECT_EQ(result.replicas().first_diff_step(), 20);
  // The run with the difference is shown, not the good one before it.
  EXPECT_EQ(result.replicas().probes(1).hash(3), "other");
}

TEST(AggregateReplicas, OptimizerStateCounts) {
  const VariantResult result = Check({RunWith({.variant = "ring"}, [](Files* files) {
    ProbeAt(files, 1, 10)->set_optimizer_hash("momentum");
  })});
  EXPECT_EQ(result.replicas().state(), "diverged");
  EXPECT_EQ(result.replicas().first_diff_step(), 10);
}

TEST(AggregateReplicas, NothingComparedIsUnchecked) {
  EXPECT_EQ(Check({synthetic::Run({.variant = "ring", .workers = 1})}).replicas().state(),
            "unchecked");
  const VariantResult result = Check({RunWith({.variant = "ring"}, [](Files* files) {
    files->erase({"worker", 2});  // no probe is whole any more
  })});
  EXPECT_EQ(result.replicas().state(), "unchecked");
  EXPECT_EQ(result.final_hash(), "");
  EXPECT_FALSE(result.repeated_hash_equal());
  EXPECT_THAT(result.replicas().probes(0).hash(), ElementsAre("h10", "h10", "", "h10"));
}

// Interrupted before the first step: equal start values are no result of a synchronous way.
TEST(AggregateReplicas, StartValuesAloneAreUnchecked) {
  const Shape shape = {.variant = "ring", .steps = 30};
  Files files = FilesOf(shape);
  for (int rank = 0; rank < shape.workers; ++rank) {
    files[{"worker", rank}] = {synthetic::StartedRecord(shape, "worker", rank),
                               synthetic::ProbedRecord(0, "start")};
  }
  VariantResult result = Check({RunOf(shape, files)});
  EXPECT_EQ(result.replicas().state(), "unchecked");
  EXPECT_TRUE(result.replicas().max_rel().has_null_value());
  EXPECT_THAT(result.replicas().max_rel_reason(), HasSubstr("only the start values"));

  for (int rank = 0; rank < shape.workers; ++rank) {
    files[{"worker", rank}].push_back(synthetic::StepRecord(shape, rank, 1));
    files[{"worker", rank}].push_back(synthetic::ProbedRecord(1, "one"));
  }
  result = Check({RunOf(shape, files)});
  EXPECT_EQ(result.replicas().state(), "identical");
  EXPECT_EQ(result.replicas().max_rel().number_value(), 0);
}

TEST(AggregateReplicas, ADifferenceAmongThoseLeftIsStillOne) {
  const VariantResult result = Check({RunWith({.variant = "ring"}, [](Files* files) {
    files->erase({"worker", 0});
    ProbeAt(files, 3, 10)->set_parameters_hash("other");
  })});
  EXPECT_EQ(result.replicas().state(), "diverged");
}

TEST(AggregateReplicas, BlocksOfOneSeedMustRepeatOtherSeedsNeedNot) {
  const Shape first = {.variant = "ring", .block = 0, .seed = 1};
  const Shape again = {.variant = "ring", .block = 1, .seed = 1};
  const Shape other = {.variant = "ring", .block = 0, .seed = 2};
  Files files = FilesOf(other);
  for (int rank = 0; rank < 4; ++rank) ProbeAt(&files, rank, 20)->set_parameters_hash("seed 2");
  VariantResult result = Check({synthetic::Run(first), synthetic::Run(again), RunOf(other, files)});
  EXPECT_TRUE(result.repeated_hash_equal());
  EXPECT_EQ(result.final_hash(), "h20");

  files = FilesOf(again);
  for (int rank = 0; rank < 4; ++rank) ProbeAt(&files, rank, 20)->set_parameters_hash("drift");
  result = Check({synthetic::Run(first), RunOf(again, files)});
  EXPECT_FALSE(result.repeated_hash_equal());
  EXPECT_EQ(result.replicas().state(), "identical");
}

// Seeds run in random order, and variants are compared by this hash: it must be of the same seed.
TEST(AggregateReplicas, TheFinalHashIsThatOfTheFirstSeed) {
  std::vector<RunRecord> runs;
  for (const uint64_t seed : {2U, 1U}) {
    const Shape shape = {.variant = "ring", .seed = seed};
    Files files = FilesOf(shape);
    for (int rank = 0; rank < 4; ++rank) {
      ProbeAt(&files, rank, 20)->set_parameters_hash("seed " + std::to_string(seed));
    }
    runs.push_back(RunOf(shape, files));
    runs.back().config.mutable_experiment()->mutable_train()->add_seeds(1);
    runs.back().config.mutable_experiment()->mutable_train()->add_seeds(2);
  }
  EXPECT_EQ(Check(runs).final_hash(), "seed 1");
}

TEST(AggregateReplicas, DistanceComesFromTheCopies) {
  const Shape shape = {.variant = "none"};
  Files files = FilesOf(shape);
  for (int rank = 0; rank < 4; ++rank) {
    for (const int step : {10, 20}) ProbeAt(&files, rank, step)->set_snapshot_offset(0);
  }
  const RunRecord run = RunOf(shape, files);
  const SnapshotReader snapshots = [](const RunRecord&, int rank, const Probed& probed) {
    // Rank r holds (4, r * step / 10): 3 apart at step 10, 6 at step 20; the largest is 4, then 6.
    return std::vector<float>{4, static_cast<float>(rank) * static_cast<float>(probed.step()) / 10};
  };
  const VariantResult result = Check({run}, snapshots);
  EXPECT_EQ(result.replicas().state(), "diverged");
  EXPECT_DOUBLE_EQ(result.replicas().probes(0).max_rel(), 0.75);
  EXPECT_DOUBLE_EQ(result.replicas().probes(1).max_rel(), 1.0);
  EXPECT_DOUBLE_EQ(result.replicas().max_rel().number_value(), 1.0);
  EXPECT_EQ(result.replicas().max_rel_reason(), "");
}

TEST(AggregateReplicas, AFailedReadIsAReasonNotAZero) {
  const Shape shape = {.variant = "none"};
  Files files = FilesOf(shape);
  for (int rank = 0; rank < 4; ++rank) ProbeAt(&files, rank, 20)->set_snapshot_offset(0);
  const SnapshotReader snapshots = [](const RunRecord&, int rank,
                                      const Probed&) -> absl::StatusOr<std::vector<float>> {
    if (rank == 2) return absl::DataLossError("file ended early");
    return std::vector<float>{1};
  };
  const VariantResult result = Check({RunOf(shape, files)}, snapshots);
  EXPECT_TRUE(result.replicas().max_rel().has_null_value());
  EXPECT_THAT(result.replicas().max_rel_reason(),
              HasSubstr("probe at step 20: worker 2: file ended early"));
  EXPECT_FALSE(result.replicas().probes(1).has_max_rel());
}

TEST(LargestRelativeDistance, HasKnownValues) {
  EXPECT_EQ(*LargestRelativeDistance({{1, -2}, {1, -2}, {1, -2}}), 0);
  EXPECT_EQ(*LargestRelativeDistance({{0, 0}, {0, 0}}), 0);
  // The widest pair is ranks 1 and 2: |-1 - 3| / |-8|.
  EXPECT_DOUBLE_EQ(*LargestRelativeDistance({{0, -8}, {-1, -8}, {3, -8}}), 0.5);
  EXPECT_THAT(LargestRelativeDistance({{1}, {1, 2}}),
              StatusIs(absl::StatusCode::kInvalidArgument, "worker 1 has 2 parameters"));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(LargestRelativeDistance({{1, 1}, {1, nan}}),
              StatusIs(absl::StatusCode::kInvalidArgument, "parameter 1 of worker 1"));
}

TEST(ReadSnapshot, ReadsItsPartOfTheFileAndNoMore) {
  const std::string path = ::testing::TempDir() + "/worker-0.rec.params";
  const float values[] = {1, 2, 3, 4};
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(values), sizeof(values));
  Probed probed;
  probed.set_snapshot_offset(8);
  probed.set_snapshot_bytes(8);
  const auto copy = ReadSnapshot(path, probed);
  ASSERT_THAT(copy, IsOk());
  EXPECT_THAT(*copy, ElementsAre(3, 4));
  probed.set_snapshot_bytes(12);
  EXPECT_THAT(ReadSnapshot(path, probed), StatusIs(absl::StatusCode::kDataLoss, "has 16"));
  probed.set_snapshot_bytes(7);
  EXPECT_THAT(ReadSnapshot(path, probed), StatusIs(absl::StatusCode::kInvalidArgument, "bytes 7"));
  probed.set_snapshot_bytes(8);
  EXPECT_THAT(ReadSnapshot(path + ".none", probed), StatusIs(absl::StatusCode::kNotFound, ".none"));
}

}  // namespace
}  // namespace lockstep
