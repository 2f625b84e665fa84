// Every operation of a model's GPU, and its optimizers, against the host's, bit for bit: both are
// compiled for the same processor here. On a GPU exp and log may differ in the last place.
#include "worker/gpu/gpu_math.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/numeric/random.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/gpu/host_gpu.h"
#include "worker/model/mirror.h"

namespace lockstep {
namespace {

std::vector<float> Values(int64_t count, uint64_t stream) {
  Random random(3, stream);
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(random.Uniform() * 4 - 2);
  return values;
}

// What `use` leaves in an array that was `before`, on a Math whose other arrays `place` brings to
// it.
using Place = std::function<const float*(const std::vector<float>&)>;
using Use = std::function<void(Math<float>*, const Place&, float* out)>;
std::vector<float> After(std::unique_ptr<Math<float>> math, std::vector<float> before,
                         const Use& use) {
  Memory* const memory = math->memory();
  std::vector<Mirror<float>> arrays;
  const auto place = [&](const std::vector<float>& values) -> const float* {
    arrays.emplace_back(memory, static_cast<int64_t>(values.size()));
    std::copy(values.begin(), values.end(), arrays.back().host().begin());
    arrays.back().ToOperands();
    return arrays.back().operands();
  };
  arrays.reserve(8);
  place(before);
  const Mirror<float>& out = arrays[0];
  use(math.get(), place, out.operands());
  out.ToHost();
  EXPECT_THAT(memory->Await(), IsOk());
  before.assign(out.host().begin(), out.host().end());
  arrays.clear();
  return before;
}

void ExpectSame(const std::vector<float>& before, const Use& use) {
  const std::vector<float> expected = After(MakeReferenceMath<float>(), before, use);
  EXPECT_NE(expected, before) << "the case tests nothing";
  EXPECT_EQ(After(MakeHostGpuMath(), before, use), expected);
}

constexpr int64_t kRows = 9;
constexpr int64_t kColumns = 7;
constexpr int64_t kCount = kRows * kColumns;

TEST(GpuMathTest, Multiply) {
  ExpectSame(Values(kRows * 5, 1), [](Math<float>* math, const Place& place, float* out) {
    math->Multiply({.a = place(Values(kRows * kColumns, 2)),
                    .b = place(Values(kColumns * 5, 3)),
                    .c = out,
                    .transpose_b = true,
                    .m = kRows,
                    .n = 5,
                    .k = kColumns});
  });
}

TEST(GpuMathTest, AddBias) {
  ExpectSame(Values(kCount, 1), [](Math<float>* math, const Place& place, float* out) {
    math->AddBias(kRows, kColumns, place(Values(kColumns, 2)), out);
  });
}

TEST(GpuMathTest, SumRows) {
  ExpectSame(Values(kColumns, 1), [](Math<float>* math, const Place& place, float* out) {
    math->SumRows(kRows, kColumns, place(Values(kCount, 2)), out);
  });
}

TEST(GpuMathTest, ReluAndItsGradient) {
  ExpectSame(Values(kCount, 1), [](Math<float>* math, const Place& place, float* out) {
    math->Relu(kCount, place(Values(kCount, 2)), out);
  });
  ExpectSame(Values(kCount, 1), [](Math<float>* math, const Place& place, float* out) {
    math->ReluGradient(kCount, place(Values(kCount, 2)), place(Values(kCount, 3)), out);
  });
}

TEST(GpuMathTest, ReluKeepsNanVisible) {
  const std::vector<float> nan = {std::nanf("")};
  const std::vector<float> y = After(
      MakeHostGpuMath(), {1},
      [&](Math<float>* math, const Place& place, float* out) { math->Relu(1, place(nan), out); });
  EXPECT_TRUE(std::isnan(y[0]));
}

TEST(GpuMathTest, Scale) {
  ExpectSame(Values(kCount, 1), [](Math<float>* math, const Place& /*place*/, float* out) {
    math->Scale(kCount, 0.75F, out);
  });
}

// Losses and gradients, one after the other.
TEST(GpuMathTest, SoftmaxCrossEntropy) {
  std::vector<float> logits = Values(kCount, 2);
  logits[3] = 1000;  // exp(1000) alone would overflow
  std::vector<float> labels(kRows);
  for (int64_t row = 0; row < kRows; ++row) {
    const auto label = static_cast<int32_t>(row % kColumns);
    std::memcpy(&labels[static_cast<size_t>(row)], &label, sizeof(label));
  }
  ExpectSame(Values(kRows + kCount, 1), [&](Math<float>* math, const Place& place, float* out) {
    math->SoftmaxCrossEntropy({.rows = kRows,
                               .classes = kColumns,
                               .logits = place(logits),
                               .labels = reinterpret_cast<const int32_t*>(place(labels)),
                               .losses = out,
                               .gradient = out + kRows});
  });
}

}  // namespace
}  // namespace lockstep
