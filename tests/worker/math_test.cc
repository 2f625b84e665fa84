#include "worker/model/math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/numeric/random.h"

namespace lockstep {
namespace {

template <typename T>
std::vector<T> Values(int64_t count, uint64_t stream) {
  Random random(11, stream);
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<T>(random.Uniform() - 0.5F));
  return values;
}

struct ProductCase {
  bool transpose_a = false;
  bool transpose_b = false;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
};

std::vector<ProductCase> ProductCases() {
  std::vector<ProductCase> cases;
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const auto& [m, n, k] :
           {std::tuple(1, 1, 1), std::tuple(3, 5, 7), std::tuple(32, 10, 256),
            std::tuple(17, 64, 33), std::tuple(128, 256, 64)}) {
        cases.push_back({transpose_a, transpose_b, m, n, k});
      }
    }
  }
  return cases;
}

class ProductTest : public testing::TestWithParam<ProductCase> {};
INSTANTIATE_TEST_SUITE_P(Shapes, ProductTest, testing::ValuesIn(ProductCases()),
                         [](const auto& test) {
                           const ProductCase& p = test.param;
                           return absl::StrCat(p.transpose_a ? "At" : "A",
                                               p.transpose_b ? "Bt" : "B", "_", p.m, "x", p.n, "x",
                                               p.k);
                         });

template <typename T>
std::vector<T> Multiplied(Math<T>* math, const ProductCase& shape) {
  const std::vector<T> a = Values<T>(shape.m * shape.k, 1);
  const std::vector<T> b = Values<T>(shape.k * shape.n, 2);
  std::vector<T> c(static_cast<size_t>(shape.m * shape.n), T{77});  // must be overwritten
  math->Multiply({.a = a.data(),
                  .b = b.data(),
                  .c = c.data(),
                  .transpose_a = shape.transpose_a,
                  .transpose_b = shape.transpose_b,
                  .m = shape.m,
                  .n = shape.n,
                  .k = shape.k});
  return c;
}

// The definition, written a third way: by index of the stored matrices.
TEST_P(ProductTest, ReferenceIsTheDefinition) {
  const ProductCase& s = GetParam();
  const std::vector<double> a = Values<double>(s.m * s.k, 1);
  const std::vector<double> b = Values<double>(s.k * s.n, 2);
  const std::vector<double> c = Multiplied(MakeReferenceMath<double>().get(), s);
  auto at = [](const std::vector<double>& matrix, bool transposed, int64_t row, int64_t column,
               int64_t rows, int64_t columns) {
    return matrix.at(
        static_cast<size_t>(transposed ? column * rows + row : row * columns + column));
  };
  for (int64_t row = 0; row < s.m; ++row) {
    for (int64_t column = 0; column < s.n; ++column) {
      double sum = 0;
      for (int64_t i = 0; i < s.k; ++i) {
        sum += at(a, s.transpose_a, row, i, s.m, s.k) * at(b, s.transpose_b, i, column, s.k, s.n);
      }
      EXPECT_DOUBLE_EQ(c.at(static_cast<size_t>(row * s.n + column)), sum);
    }
  }
}

TEST_P(ProductTest, OneDnnFollowsTheReference) {
  const std::vector<float> actual = Multiplied(MakeDnnlMath().get(), GetParam());
  const std::vector<double> expected = Multiplied(MakeReferenceMath<double>().get(), GetParam());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(actual[i]), expected[i], 1e-5) << i;
  }
}

// Batches and arenas lie where the heap puts them, in each process elsewhere; a hash may not show
// it.
TEST_P(ProductTest, OneDnnBitsDoNotDependOnAddresses) {
  const ProductCase& s = GetParam();
  const auto math = MakeDnnlMath();
  const std::vector<float> expected = Multiplied(math.get(), s);
  for (int64_t shift = 0; shift < 16; ++shift) {
    std::vector<float> a(static_cast<size_t>(shift));
    std::vector<float> b(static_cast<size_t>((shift * 5) % 16));
    std::vector<float> c(static_cast<size_t>((shift * 3) % 16));
    const auto a_start = static_cast<int64_t>(a.size());
    const auto b_start = static_cast<int64_t>(b.size());
    const auto c_start = static_cast<int64_t>(c.size());
    for (const float value : Values<float>(s.m * s.k, 1)) a.push_back(value);
    for (const float value : Values<float>(s.k * s.n, 2)) b.push_back(value);
    c.resize(c.size() + expected.size());
    math->Multiply({.a = a.data() + a_start,
                    .b = b.data() + b_start,
                    .c = c.data() + c_start,
                    .transpose_a = s.transpose_a,
                    .transpose_b = s.transpose_b,
                    .m = s.m,
                    .n = s.n,
                    .k = s.k});
    EXPECT_EQ(std::vector<float>(c.begin() + c_start, c.end()), expected) << "shift " << shift;
  }
}

int64_t ThreadsOfThisProcess() {
  const std::filesystem::directory_iterator threads("/proc/self/task");
  return std::distance(begin(threads), end(threads));
}

TEST(DnnlMathTest, RunsOnTheCallersThreadAlone) {
  const int64_t before = ThreadsOfThisProcess();
  Multiplied(MakeDnnlMath().get(), {.m = 512, .n = 512, .k = 512});
  EXPECT_EQ(ThreadsOfThisProcess(), before);
}

TEST(ReferenceMathTest, SoftmaxCrossEntropyOfEqualLogitsIsLogOfTheClasses) {
  const std::vector<double> logits(8, 1000.0);  // exp(1000) alone would overflow
  const std::vector<int32_t> labels = {0, 3};
  std::vector<double> gradient(8);
  std::vector<double> losses(2);
  MakeReferenceMath<double>()->SoftmaxCrossEntropy({.rows = 2,
                                                    .classes = 4,
                                                    .logits = logits.data(),
                                                    .labels = labels.data(),
                                                    .losses = losses.data(),
                                                    .gradient = gradient.data()});
  for (const double loss : losses) EXPECT_DOUBLE_EQ(loss, std::log(4.0));
  EXPECT_EQ(gradient,
            (std::vector<double>{-0.375, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, -0.375}));
}

TEST(ReferenceMathTest, ReluKeepsNanVisible) {
  const std::vector<float> x = {-1.0F, 0.0F, 2.0F, std::nanf("")};
  std::vector<float> y(4);
  MakeReferenceMath<float>()->Relu(4, x.data(), y.data());
  EXPECT_EQ(std::vector<float>(y.begin(), y.begin() + 3), (std::vector<float>{0, 0, 2}));
  EXPECT_TRUE(std::isnan(y[3]));
}

}  // namespace
}  // namespace lockstep
