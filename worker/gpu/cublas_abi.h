// cublas_abi.h: the part of cuBLAS's binary interface that we use, in our own declarations, so that
// its header is not needed to build. The names are cuBLAS's own; the same in 12 and 13. Checked
// against the header where that is installed (tests/worker/gpu/cublas_test.cc).
#pragma once

#include <cstddef>

namespace lockstep::gpu::cublas {

inline constexpr int kMajorMin = 12;

struct Context;  // opaque
using Handle = Context*;

enum Status : int { kSuccess = 0 };
enum Operation : int { kNone = 0, kTranspose = 1 };
enum MathMode : int { kDefaultMath = 0, kPedanticMath = 2, kTf32TensorOpMath = 3 };
enum AtomicsMode : int { kAtomicsNotAllowed = 0 };
enum DataType : int { kReal32F = 0 };
enum ComputeType : int { kCompute32FPedantic = 69, kCompute32FFastTf32 = 77 };
enum Algorithm : int { kGemmDefault = -1 };
enum Property : int { kMajorVersion = 0, kMinorVersion = 1, kPatchLevel = 2 };

using GetProperty = Status(Property property, int* value);
using GetStatusString = const char*(Status status);
using Create = Status(Handle* handle);
using Destroy = Status(Handle handle);
using SetStream = Status(Handle handle, void* stream);
using SetWorkspace = Status(Handle handle, void* workspace, size_t bytes);
using SetMathMode = Status(Handle handle, MathMode mode);
using SetAtomicsMode = Status(Handle handle, AtomicsMode mode);
// Column-major: c (m, n) = alpha * op(a) (m, k) * op(b) (k, n) + beta * c.
using GemmEx = Status(Handle handle, Operation of_a, Operation of_b, int m, int n, int k,
                      const void* alpha, const void* a, DataType a_type, int lda, const void* b,
                      DataType b_type, int ldb, const void* beta, void* c, DataType c_type, int ldc,
                      ComputeType compute, Algorithm algorithm);

}  // namespace lockstep::gpu::cublas
