// Whole ranks that compute on GPUs, as a spec asks for: the real model, data, optimizer and
// exchange. The GPUs are host memory, opened as real ones are. STRICT has the bits of the
// reference's plain loops here, where both run on one kind of processor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/places.h"
#include "tests/support/scoped_variable.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/loop_ranks.h"
#include "worker/trainer.h"

namespace lockstep {
namespace {

std::string Dir() { return BinDir() + "/fake_gpu"; }

absl::StatusOr<std::unique_ptr<StepLoop>> OnGpu(const Start& start, LoopContext context) {
  context.compute_place.gpu = {.library_dir = Dir(), .cublas = Dir() + "/whole/libcublas.so"};
  return MakeTrainer(start, std::move(context));
}

absl::StatusOr<std::unique_ptr<StepLoop>> OnReference(const Start& start, LoopContext context) {
  return MakeTrainerOn({.math = MakeReferenceMath<float>()}, start, std::move(context));
}

std::vector<RankResult> RunOnGpu(Case test, const std::string& words = "") {
  absl::StrAppend(&test.experiment, " device: GPU ", words);
  test.make_trainer = OnGpu;
  return RunAll(test);
}

// Of worker 0; the others' are the same.
std::string HashOf(const std::vector<RankResult>& ranks) {
  for (int rank = 0; rank < kWorkers; ++rank) {
    const RankResult& result = ranks[static_cast<size_t>(rank)];
    EXPECT_THAT(result.status, IsOk()) << "rank " << rank;
    EXPECT_EQ(FinalHash(result), FinalHash(ranks[0])) << "rank " << rank;
  }
  EXPECT_NE(FinalHash(ranks[0]), "");
  return FinalHash(ranks[0]);
}

class GpuLoopTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Ways, GpuLoopTest,
    testing::Values(Case{"gpu_ring", AllReduceVariant("RING"), ""},
                    Case{"gpu_tree_inline", AllReduceVariant("TREE"), "overlap: false"},
                    Case{"gpu_half", AllReduceVariant("RING"), "wire_dtype: BF16"},
                    Case{"gpu_exact", AllReduceVariant("DIRECT"), "reduction_order: EXACT"},
                    Case{"gpu_exchange", AllReduceVariant("PS_EXCHANGE", 1), "", 1}),
    [](const auto& test) { return test.param.name; });

TEST_P(GpuLoopTest, StrictIsTheReferenceToTheBits) {
  Case reference = GetParam();
  reference.make_trainer = OnReference;
  reference.name += "_reference";
  const std::string expected = HashOf(RunAll(reference));
  EXPECT_EQ(HashOf(RunOnGpu(GetParam())), expected);
}

TEST(GpuLoopTest, Tf32IsAnotherArithmeticAndTheRecordSaysWhich) {
  const Case test = {"gpu_math", AllReduceVariant("RING"), ""};
  const std::vector<RankResult> strict = RunOnGpu(test);
  const std::vector<RankResult> tf32 = RunOnGpu(test, "math: TF32");
  EXPECT_NE(HashOf(tf32), HashOf(strict));
  const Started& started = tf32[1].records.at(0).started();
  EXPECT_EQ(started.device(), "GPU");
  EXPECT_EQ(started.math(), "TF32");
  EXPECT_EQ(started.gpu(), "Host 1");
  EXPECT_EQ(started.math_library(), "cuBLAS 13.1.1");
  EXPECT_EQ(strict[1].records.at(0).started().math(), "STRICT");
}

TEST(GpuLoopTest, AWorkerMayDifferFromTheSpec) {
  Case test = {"gpu_mixed", AllReduceVariant("RING"), "mixed_devices: true"};
  test.make_trainer = [](const Start& start, LoopContext context) {
    if (context.index == 1) context.compute_place.words.device = "GPU";
    return OnGpu(start, std::move(context));
  };
  const std::vector<RankResult> ranks = RunAll(test);
  HashOf(ranks);
  EXPECT_EQ(ranks[0].records.at(0).started().device(), "CPU");
  EXPECT_EQ(ranks[0].records.at(0).started().math_library(), "oneDNN");
  EXPECT_EQ(ranks[1].records.at(0).started().device(), "GPU");
}

TEST(GpuLoopTest, AGradientThatIsNotFiniteIsNamed) {
  Case test = {"gpu_nan", AllReduceVariant("RING"),
               "fault { kind: NAN_GRADIENT target: \"worker:1\" at { step: 3 } } "};
  test.meets_after = 2;
  EXPECT_THAT(RunOnGpu(test)[1].status,
              StatusIs(absl::StatusCode::kDataLoss,
                       "step 3: the gradient of linear0.weight is not finite (nan at element 0) "
                       "on worker 1"));
}

// Each worker ends with `what`, of its own GPU.
void ExpectOfItsGpu(const std::vector<RankResult>& ranks, const std::string& what) {
  for (int rank = 0; rank < kWorkers; ++rank) {
    EXPECT_THAT(ranks[static_cast<size_t>(rank)].status,
                StatusIs(absl::StatusCode::kInternal, absl::StrCat("worker ", rank, ", GPU ", rank,
                                                                   " (Host ", rank, "): ", what)));
  }
}

TEST(GpuLoopTest, AGpuThatHangsIsNamedWithinTheLimit) {
  const ScopedVariable trouble("LOCKSTEP_TEST_HANGS", "1");
  ExpectOfItsGpu(
      RunOnGpu({"gpu_hang", AllReduceVariant("RING"), "limits { device_timeout_ms: 300 }"}),
      "not through after 300 ms; if a step is that long, raise limits.device_timeout_ms");
}

TEST(GpuLoopTest, TheOptimizerRunsOnTheGpu) {
  const ScopedVariable trouble("LOCKSTEP_TEST_FAILS", "SgdUpdate");
  ExpectOfItsGpu(RunOnGpu({"gpu_update", "name: \"v\" none {}", ""}),
                 "SgdUpdate: unspecified launch failure");
}

}  // namespace
}  // namespace lockstep
