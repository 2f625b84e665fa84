// cublas.h: matrix products by cuBLAS, opened at run time. It stays loaded: it leaves threads
// behind. The bits are those of every run on the same kind of GPU: no atomics, one stream, one
// workspace of its own. math: STRICT: fp32 in every phase; TF32: factors are rounded to 10 bits of
// mantissa. Errors: kInvalid (each its own words: no library, no such function, too old), kDevice
// (a call, by name). Threads: one at a time. No Abseil.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "allreduce/cuda/device.h"
#include "worker/gpu/cublas_abi.h"

namespace lockstep::gpu {

// c (m, n) = op(a) (m, k) * op(b) (k, n), all row-major without gaps, as in worker/model/math.h.
struct MatrixProduct {
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
  bool transpose_a = false;
  bool transpose_b = false;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
};

class Cublas {
 public:
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // what cuBLAS advises for Hopper

  Cublas() = default;
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  // `library`: a path; empty: libcublas.so.13, or .12, where the loader finds it.
  Answer Load(const std::string& library);
  // On the GPU that the calling thread has chosen. `stream`: a cudaStream_t; `workspace`: of
  // kWorkspaceBytes on that GPU; both must outlive this object.
  Answer Open(bool tf32, void* stream, void* workspace);
  // Enqueues. REQUIRES: Open; sizes in 1 .. 2^31 - 1.
  Answer Multiply(const MatrixProduct& product);

  const std::string& version() const { return version_; }  // "13.0.2"
  const std::string& path() const { return path_; }

 private:
  Answer Judge(cublas::Status status, const std::string& call) const;
  template <typename Function>
  Answer Find(void* library, const char* symbol, Function** function) const;
  Answer ReadVersion();

  cublas::GetProperty* get_property_ = nullptr;
  cublas::GetStatusString* get_status_string_ = nullptr;
  cublas::Create* create_ = nullptr;
  cublas::Destroy* destroy_ = nullptr;
  cublas::SetStream* set_stream_ = nullptr;
  cublas::SetWorkspace* set_workspace_ = nullptr;
  cublas::SetMathMode* set_math_mode_ = nullptr;
  cublas::SetAtomicsMode* set_atomics_mode_ = nullptr;
  cublas::GemmEx* gemm_ex_ = nullptr;

  std::string version_;
  std::string path_;
  bool tf32_ = false;
  cublas::Handle handle_ = nullptr;
};

}  // namespace lockstep::gpu
