// A libcublas.so of ours, over host memory: products by plain loops over columns, in the order of
// the reference's sums. It insists on the settings that make cuBLAS's bits those of every run.
#include <cstdint>
#include <cstring>

#include "worker/gpu/cublas_abi.h"

#ifndef FAKE_MAJOR
#define FAKE_MAJOR 13
#endif
#ifdef FAKE_LACKS_GEMM
#define cublasGemmEx cublasOfAnotherName
#endif
#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace lockstep::gpu::cublas {

struct Context {
  bool workspace = false;
  bool no_atomics = false;
  MathMode math = kDefaultMath;
};

namespace {

constexpr Status kInvalidValue{7};
constexpr Status kNotInitialized{1};

// What TF32 keeps of a factor: 10 bits of mantissa, rounded to nearest, ties away from zero.
float Rounded(float value, bool tf32) {
  if (!tf32) return value;
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  bits = (bits + 0x1000U) & ~0x1fffU;
  std::memcpy(&value, &bits, sizeof(bits));
  return value;
}

}  // namespace

EXPORTED Status cublasGetProperty(Property property, int* value) {
  *value = property == kMajorVersion ? FAKE_MAJOR : 1;
  return kSuccess;
}
EXPORTED const char* cublasGetStatusString(Status status) {
  return status == kInvalidValue ? "an unsupported value or parameter" : "another error";
}
EXPORTED Status cublasCreate_v2(Handle* handle) {
  *handle = new Context;  // Destroy's
  return kSuccess;
}
EXPORTED Status cublasDestroy_v2(Handle handle) {
  delete handle;
  return kSuccess;
}
EXPORTED Status cublasSetStream_v2(Handle handle, void* /*stream*/) {
  handle->workspace = false;  // as the library does
  return kSuccess;
}
EXPORTED Status cublasSetWorkspace_v2(Handle handle, void* workspace, size_t bytes) {
  handle->workspace = workspace != nullptr && bytes > 0;
  return kSuccess;
}
EXPORTED Status cublasSetMathMode(Handle handle, MathMode mode) {
  handle->math = mode;
  return kSuccess;
}
EXPORTED Status cublasSetAtomicsMode(Handle handle, AtomicsMode mode) {
  handle->no_atomics = mode == kAtomicsNotAllowed;
  return kSuccess;
}

EXPORTED Status cublasGemmEx(Handle handle, Operation of_a, Operation of_b, int m, int n, int k,
                             const void* alpha, const void* a, DataType a_type, int lda,
                             const void* b, DataType b_type, int ldb, const void* beta, void* c,
                             DataType c_type, int ldc, ComputeType compute,
                             Algorithm /*algorithm*/) {
  const bool tf32 = compute == kCompute32FFastTf32;
  if (!handle->workspace || !handle->no_atomics) return kNotInitialized;
  if (handle->math != (tf32 ? kTf32TensorOpMath : kPedanticMath)) return kInvalidValue;
  if (a_type != kReal32F || b_type != kReal32F || c_type != kReal32F) return kInvalidValue;
  if (*static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0) {
    return kInvalidValue;
  }
  // As the library checks them: a leading dimension is at least the stored column.
  if (lda < (of_a == kNone ? m : k) || ldb < (of_b == kNone ? k : n) || ldc < m) {
    return kInvalidValue;
  }
  const auto* const x = static_cast<const float*>(a);
  const auto* const y = static_cast<const float*>(b);
  auto* const z = static_cast<float*>(c);
  for (int64_t column = 0; column < n; ++column) {
    for (int64_t row = 0; row < m; ++row) {
      float sum = 0;
      for (int64_t i = 0; i < k; ++i) {
        const float left = of_a == kNone ? x[i * lda + row] : x[row * lda + i];
        const float right = of_b == kNone ? y[column * ldb + i] : y[i * ldb + column];
        sum += Rounded(left, tf32) * Rounded(right, tf32);
      }
      z[column * ldc + row] = sum;
    }
  }
  return kSuccess;
}

}  // namespace lockstep::gpu::cublas
