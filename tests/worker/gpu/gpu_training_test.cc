// A model on the GPU through the seam, with overlap and whole steps: the same bits as on the host,
// where its arithmetic is the reference's; and each failing call named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abort.h"
#include "base/numeric/random.h"
#include "base/status.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/gpu/host_gpu.h"
#include "worker/bucket/bucket.h"
#include "worker/gpu/gpu_math.h"
#include "worker/model/factory.h"
#include "worker/sync/local.h"
#include "worker/sync/step_exchange.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

const std::vector<int64_t> kWidths = {12, 40, 24, 5};
constexpr int64_t kSteps = 4;

struct OneBatch {
  std::vector<float> inputs;
  std::vector<int32_t> labels;
};
// The last batch is smaller.
OneBatch BatchAt(int64_t step) {
  OneBatch data;
  Random random(9, static_cast<uint64_t>(step));
  const int64_t rows = step == kSteps ? 5 : 8;
  for (int64_t i = 0; i < rows * kWidths.front(); ++i) data.inputs.push_back(random.Uniform());
  for (int64_t i = 0; i < rows; ++i) data.labels.push_back(static_cast<int32_t>(i % 5));
  return data;
}

struct Result {
  absl::Status status;
  std::vector<double> losses;
  std::vector<float> parameters;
  std::vector<float> optimizer_state;
};

// What step_loop.cc makes of a model and a synchronizer, without records.
absl::Status Train(Model* model, Synchronizer* sync, Result* result) {
  static const MonotonicClock clock;
  static const Abort abort;
  const std::vector<Bucket> buckets = MakeBuckets(model->spans(), /*cap_bytes=*/2'000);
  EXPECT_GT(buckets.size(), 1U);
  StepExchange exchange(
      sync,
      {.overlap = true,
       .buckets = static_cast<int>(buckets.size()),
       .call_timeout_ms = 20'000,
       .arrived = [model](int64_t /*step*/,
                          const Bucket& bucket) { return model->AwaitGradients(bucket); }},
      clock, abort);
  model->Init(1);
  RETURN_IF_ERROR(model->FetchParameters());
  for (int64_t step = 1; step <= kSteps; ++step) {
    const OneBatch data = BatchAt(step);
    size_t next = 0;
    ASSIGN_OR_RETURN(
        const double loss,
        model->ForwardBackward({data.inputs, data.labels}, [&](int tensor) -> absl::Status {
          model->ScaleGradient(tensor, 0.5F);
          if (tensor != buckets[next].first_tensor) {
            return absl::OkStatus();
          }
          const Bucket& bucket = buckets[next++];
          model->SendGradients(bucket);
          return exchange.Ready(step, bucket, model->gradients());
        }));
    result->losses.push_back(loss);
    RETURN_IF_ERROR(exchange.Finish(step, model->gradients(), model->parameters()));
    model->StoreParameters();
  }
  RETURN_IF_ERROR(model->FetchParameters());
  result->parameters.assign(model->parameters().begin(), model->parameters().end());
  const std::span<const float> state = sync->optimizer_state();
  result->optimizer_state.assign(state.begin(), state.end());
  return absl::OkStatus();
}

Result OnHost(const OptimizerOptions& options) {
  const auto model = MakeMlp<float>(kWidths, MakeReferenceMath<float>());
  LocalSynchronizer sync(options, model->parameter_count());
  Result result;
  result.status = Train(model.get(), &sync, &result);
  return result;
}

Result OnGpu(const OptimizerOptions& options, const HostGpuSettings& settings = {},
             bool tf32 = false) {
  auto memory = MakeHostGpuMemory(settings, tf32);
  GpuMemory* const at = memory.get();
  const auto model = MakeMlp<float>(kWidths, MakeGpuMath(std::move(memory)));
  Result result;
  result.status = at->Await();
  if (!result.status.ok()) return result;
  LocalSynchronizer sync(options, model->parameter_count(),
                         [&](const OptimizerOptions& rule, int64_t /*parameters*/) {
                           return MakeGpuOptimizer(at, model.get(), rule);
                         });
  result.status = Train(model.get(), &sync, &result);
  return result;
}

class GpuTrainingTest : public testing::TestWithParam<OptimizerOptions> {};
INSTANTIATE_TEST_SUITE_P(
    Optimizers, GpuTrainingTest,
    testing::Values(OptimizerOptions{.learning_rate = 0.1F},
                    OptimizerOptions{.learning_rate = 0.1F, .momentum = 0.9F, .divisor = 3},
                    OptimizerOptions{
                        .learning_rate = 0.01F, .kind = OptimizerKind::kAdam, .weight_decay = 0.1F},
                    OptimizerOptions{.learning_rate = 0.01F,
                                     .kind = OptimizerKind::kAdamW,
                                     .weight_decay = 0.1F}),
    [](const auto& test) { return absl::StrCat("Case", test.index); });

TEST_P(GpuTrainingTest, BitsAreTheHosts) {
  const Result host = OnHost(GetParam());
  const Result gpu = OnGpu(GetParam());
  ASSERT_THAT(host.status, IsOk());
  ASSERT_THAT(gpu.status, IsOk());
  EXPECT_EQ(gpu.losses, host.losses);
  EXPECT_EQ(gpu.parameters, host.parameters);
  EXPECT_EQ(gpu.optimizer_state, host.optimizer_state);
}

TEST(GpuTrainingTest, Tf32IsNearAndNotTheSame) {
  const OptimizerOptions options = {.learning_rate = 0.1F};
  const Result strict = OnGpu(options);
  const Result tf32 = OnGpu(options, {}, /*tf32=*/true);
  ASSERT_THAT(tf32.status, IsOk());
  EXPECT_NE(tf32.parameters, strict.parameters);
  for (size_t i = 0; i < strict.parameters.size(); ++i) {
    EXPECT_NEAR(tf32.parameters[i], strict.parameters[i], 1e-2F) << i;
  }
}

// Set-up, forward, backward, delivery and update: whichever call fails is named, with the worker.
TEST(GpuTrainingFailureTest, EachFailingCallIsNamed) {
  for (const auto& [call, after] : std::vector<std::pair<std::string, int>>{{"an event", 0},
                                                                            {"of the GPU", 3},
                                                                            {"pinned", 1},
                                                                            {"copying", 0},
                                                                            {"copying", 9},
                                                                            {"cublasGemmEx", 5},
                                                                            {"AddBias", 0},
                                                                            {"SumRows", 2},
                                                                            {"Relu", 1},
                                                                            {"ReluGradient", 0},
                                                                            {"Scale", 3},
                                                                            {"SoftmaxCross", 1},
                                                                            {"SgdUpdate", 1}}) {
    const Result result = OnGpu({}, {.fails = call, .fails_after = after});
    EXPECT_EQ(result.status.code(), absl::StatusCode::kInternal) << call;
    EXPECT_THAT(result.status.message(), HasSubstr("worker 2, GPU 0: ")) << call;
    EXPECT_THAT(result.status.message(), HasSubstr(call)) << after;
    EXPECT_THAT(result.status.message(), HasSubstr("unspecified launch failure")) << call;
  }
}

TEST(GpuTrainingFailureTest, AGpuThatHangsIsNotWaitedForForEver) {
  const Result result = OnGpu({}, {.hangs = true});
  EXPECT_THAT(result.status,
              StatusIs(absl::StatusCode::kInternal, "worker 2, GPU 0: not through after 2000 ms"));
}

TEST(GpuTrainingFailureTest, AnAbortEndsTheWaitForAGpu) {
  const MonotonicClock clock;
  Abort abort;
  GpuMemory memory(MakeHostMathDevice({.hangs = true}),
                   {.name = "worker 2, GPU 0", .timeout_ms = kHostGpuTimeoutMs, .abort = &abort},
                   clock);
  abort.Request(absl::CancelledError("interrupted"));
  EXPECT_THAT(memory.Await(), StatusIs(absl::StatusCode::kCancelled,
                                       "worker 2, GPU 0, while waiting for it: interrupted"));
}

}  // namespace
}  // namespace lockstep
