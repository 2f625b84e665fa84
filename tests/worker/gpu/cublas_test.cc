// cuBLAS behind our declarations: against its own header and library where they are installed, and
// with libraries of ours in its place.
#include "worker/gpu/cublas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <vector>

#include "base/numeric/random.h"
#include "tests/support/places.h"
#include "worker/model/math.h"

#ifdef LOCKSTEP_CUBLAS_HEADER
#include <cublas_v2.h>
#endif

namespace lockstep::gpu {
namespace {

using testing::HasSubstr;

#ifdef LOCKSTEP_CUBLAS_HEADER
#define SAME_VALUE(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))
SAME_VALUE(cublas::kSuccess, CUBLAS_STATUS_SUCCESS);
SAME_VALUE(cublas::kNone, CUBLAS_OP_N);
SAME_VALUE(cublas::kTranspose, CUBLAS_OP_T);
SAME_VALUE(cublas::kDefaultMath, CUBLAS_DEFAULT_MATH);
SAME_VALUE(cublas::kPedanticMath, CUBLAS_PEDANTIC_MATH);
SAME_VALUE(cublas::kTf32TensorOpMath, CUBLAS_TF32_TENSOR_OP_MATH);
SAME_VALUE(cublas::kAtomicsNotAllowed, CUBLAS_ATOMICS_NOT_ALLOWED);
SAME_VALUE(cublas::kReal32F, CUDA_R_32F);
SAME_VALUE(cublas::kCompute32FPedantic, CUBLAS_COMPUTE_32F_PEDANTIC);
SAME_VALUE(cublas::kCompute32FFastTf32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME_VALUE(cublas::kGemmDefault, CUBLAS_GEMM_DEFAULT);
SAME_VALUE(cublas::kMajorVersion, MAJOR_VERSION);
SAME_VALUE(cublas::kMinorVersion, MINOR_VERSION);
SAME_VALUE(cublas::kPatchLevel, PATCH_LEVEL);

// Arguments are passed alike: the same number, each of the same size and kind.
template <typename Ours, typename Theirs>
struct SameCall : std::false_type {};
template <typename R, typename... Ours, typename S, typename... Theirs>
requires(sizeof...(Ours) == sizeof...(Theirs)) struct SameCall<R(Ours...), S(Theirs...)>
    : std::bool_constant<((sizeof(Ours) == sizeof(Theirs)) && ...) &&
                         ((std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>)&&...)> {
};
static_assert(SameCall<cublas::GetProperty, decltype(cublasGetProperty)>::value);
static_assert(SameCall<cublas::GetStatusString, decltype(cublasGetStatusString)>::value);
static_assert(SameCall<cublas::Create, decltype(cublasCreate_v2)>::value);
static_assert(SameCall<cublas::Destroy, decltype(cublasDestroy_v2)>::value);
static_assert(SameCall<cublas::SetStream, decltype(cublasSetStream_v2)>::value);
static_assert(SameCall<cublas::SetWorkspace, decltype(cublasSetWorkspace_v2)>::value);
static_assert(SameCall<cublas::SetMathMode, decltype(cublasSetMathMode)>::value);
static_assert(SameCall<cublas::SetAtomicsMode, decltype(cublasSetAtomicsMode)>::value);
using TheirGemmEx = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int,
                                   int, const void*, const void*, cudaDataType, int, const void*,
                                   cudaDataType, int, const void*, void*, cudaDataType, int,
                                   cublasComputeType_t, cublasGemmAlgo_t);
// C++ has a second function by that name in the header.
static_assert(sizeof(static_cast<TheirGemmEx*>(&cublasGemmEx)) == sizeof(void*));
static_assert(SameCall<cublas::GemmEx, TheirGemmEx>::value);
#endif

std::string Fake(const std::string& kind) {
  return BinDir() + "/fake_gpu/" + kind + "/libcublas.so";
}

TEST(CublasTest, TheInstalledLibraryLoads) {
  Cublas blas;
  const Answer answer = blas.Load("");
  if (!answer.ok()) GTEST_SKIP() << answer.message;
  EXPECT_THAT(blas.path(), HasSubstr("libcublas"));
  EXPECT_GE(std::stoi(blas.version()), cublas::kMajorMin);
}

TEST(CublasTest, EachReasonHasItsOwnWords) {
  const auto why = [](const std::string& library) { return Cublas().Load(library).message; };
  EXPECT_THAT(why("/no/such/libcublas.so"), HasSubstr("the library is not here: /no/such"));
  EXPECT_THAT(why(Fake("lacking")), HasSubstr("has no function cublasGemmEx"));
  EXPECT_THAT(why(Fake("old")), HasSubstr("is version 11.1.1, older than 12"));
  for (const char* kind : {"lacking", "old"}) {
    EXPECT_THAT(why(Fake(kind)), HasSubstr("LOCKSTEP_CUBLAS_LIB"));
  }
  Cublas blas;
  ASSERT_TRUE(blas.Load(Fake("whole")).ok());
  EXPECT_EQ(blas.version(), "13.1.1");
}

std::vector<float> Values(int64_t count, uint64_t stream) {
  Random random(5, stream);
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(random.Uniform() - 0.5F);
  return values;
}

struct Shape {
  int64_t m, n, k;
};

// Calls use(name, product) for each shape and transposition; sizes differ, so that none may stand
// for another.
template <typename Use>
void ForEachProduct(const Use& use) {
  for (const Shape& shape : {Shape{1, 1, 1}, Shape{3, 5, 7}, Shape{17, 10, 33}}) {
    const std::vector<float> a = Values(shape.m * shape.k, 1);
    const std::vector<float> b = Values(shape.k * shape.n, 2);
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        use(MatrixProduct{a.data(), b.data(), nullptr, transpose_a, transpose_b, shape.m, shape.n,
                          shape.k});
      }
    }
  }
}

std::vector<float> Reference(const MatrixProduct& p) {
  std::vector<float> c(static_cast<size_t>(p.m * p.n));
  MakeReferenceMath<float>()->Multiply(
      {p.a, p.b, c.data(), p.transpose_a, p.transpose_b, p.m, p.n, p.k});
  return c;
}

std::vector<float> ByCublas(MatrixProduct p, bool tf32) {
  std::vector<float> c(static_cast<size_t>(p.m * p.n), 77);
  Cublas blas;
  EXPECT_TRUE(blas.Load(Fake("whole")).ok());
  EXPECT_EQ(blas.Open(tf32, nullptr, &blas).message, "");
  p.c = c.data();
  EXPECT_EQ(blas.Multiply(p).message, "");
  return c;
}

TEST(CublasTest, RowMajorProductsAreTheReferences) {
  ForEachProduct([](const MatrixProduct& p) { EXPECT_EQ(ByCublas(p, false), Reference(p)); });
}

TEST(CublasTest, Tf32IsNearAndNotTheSame) {
  bool differs = false;
  ForEachProduct([&](const MatrixProduct& p) {
    const std::vector<float> expected = Reference(p);
    const std::vector<float> actual = ByCublas(p, true);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 5e-3F);
    differs = differs || actual != expected;
  });
  EXPECT_TRUE(differs);
}

TEST(CublasTest, AnErrorNamesCallAndSizes) {
  Cublas blas;
  ASSERT_TRUE(blas.Load(Fake("whole")).ok());
  ASSERT_TRUE(blas.Open(false, nullptr, nullptr).ok());  // no workspace: the fake minds
  const Answer answer = blas.Multiply({.m = 2, .n = 3, .k = 4});
  EXPECT_EQ(answer.why, Refused::kDevice);
  EXPECT_THAT(answer.message, HasSubstr("cublas 13.1.1: cublasGemmEx, m 2, n 3, k 4: another"));
}

}  // namespace
}  // namespace lockstep::gpu
