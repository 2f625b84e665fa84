#include "worker/gpu/cublas.h"

#include <dlfcn.h>

#include <array>
#include <vector>

namespace lockstep::gpu {
namespace {

constexpr char kWhatToDo[] =
    ". Install cuBLAS 12 or later, or name its file in LOCKSTEP_CUBLAS_LIB, for example "
    "nvidia/cublas/lib/libcublas.so.12 in the folder of a PyTorch installation's packages";

Answer Invalid(const std::string& what) {
  return {Refused::kInvalid, "cublas: " + what + kWhatToDo};
}

}  // namespace

Cublas::~Cublas() {
  if (handle_ != nullptr) destroy_(handle_);
}

template <typename Function>
Answer Cublas::Find(void* library, const char* symbol, Function** function) const {
  *function = reinterpret_cast<Function*>(dlsym(library, symbol));
  if (*function != nullptr) return {};
  return Invalid(path_ + " has no function " + symbol);
}

Answer Cublas::Load(const std::string& library) {
  std::vector<std::string> names = {library};
  if (library.empty()) names = {"libcublas.so.13", "libcublas.so.12"};
  void* handle = nullptr;
  std::string why;
  for (const std::string& name : names) {
    path_ = name;
    handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) break;
    const char* const said = dlerror();
    why += (why.empty() ? "" : "; ") + std::string(said == nullptr ? "no reason given" : said);
  }
  if (handle == nullptr) return Invalid("the library is not here: " + why);
  Answer answer = Find(handle, "cublasGetProperty", &get_property_);
  const auto find = [&](const char* symbol, auto** function) {
    if (answer.ok()) answer = Find(handle, symbol, function);
  };
  find("cublasGetStatusString", &get_status_string_);
  find("cublasCreate_v2", &create_);
  find("cublasDestroy_v2", &destroy_);
  find("cublasSetStream_v2", &set_stream_);
  find("cublasSetWorkspace_v2", &set_workspace_);
  find("cublasSetMathMode", &set_math_mode_);
  find("cublasSetAtomicsMode", &set_atomics_mode_);
  find("cublasGemmEx", &gemm_ex_);
  return answer.ok() ? ReadVersion() : answer;
}

Answer Cublas::ReadVersion() {
  std::array<int, 3> numbers{};
  for (int i = 0; i < 3; ++i) {
    Answer answer =
        Judge(get_property_(static_cast<cublas::Property>(i), &numbers[static_cast<size_t>(i)]),
              "cublasGetProperty");
    if (!answer.ok()) return answer;
  }
  version_ = std::to_string(numbers[0]) + "." + std::to_string(numbers[1]) + "." +
             std::to_string(numbers[2]);
  if (numbers[0] >= cublas::kMajorMin) return {};
  return Invalid(path_ + " is version " + version_ + ", older than 12");
}

Answer Cublas::Judge(cublas::Status status, const std::string& call) const {
  if (status == cublas::kSuccess) return {};
  return {Refused::kDevice, "cublas " + version_ + ": " + call + ": " + get_status_string_(status) +
                                " (" + std::to_string(status) + ")"};
}

Answer Cublas::Open(bool tf32, void* stream, void* workspace) {
  tf32_ = tf32;
  Answer answer = Judge(create_(&handle_), "cublasCreate");
  const auto then = [&](cublas::Status status, const char* call) {
    answer = Judge(status, call);
    return answer.ok();
  };
  // The workspace goes back to the library's own when the stream is set.
  const bool set =
      answer.ok() && then(set_stream_(handle_, stream), "cublasSetStream") &&
      then(set_workspace_(handle_, workspace, kWorkspaceBytes), "cublasSetWorkspace") &&
      then(set_atomics_mode_(handle_, cublas::kAtomicsNotAllowed), "cublasSetAtomicsMode") &&
      then(set_math_mode_(handle_, tf32 ? cublas::kTf32TensorOpMath : cublas::kPedanticMath),
           "cublasSetMathMode");
  return set ? Answer{} : answer;
}

// A row-major matrix is its transpose in columns: c' = op(b)' op(a)', so b comes first.
Answer Cublas::Multiply(const MatrixProduct& p) {
  constexpr float kOne = 1;
  constexpr float kZero = 0;
  const auto m = static_cast<int>(p.m);
  const auto n = static_cast<int>(p.n);
  const auto k = static_cast<int>(p.k);
  const cublas::Status status = gemm_ex_(
      handle_, p.transpose_b ? cublas::kTranspose : cublas::kNone,
      p.transpose_a ? cublas::kTranspose : cublas::kNone, n, m, k, &kOne, p.b, cublas::kReal32F,
      p.transpose_b ? k : n, p.a, cublas::kReal32F, p.transpose_a ? m : k, &kZero, p.c,
      cublas::kReal32F, n, tf32_ ? cublas::kCompute32FFastTf32 : cublas::kCompute32FPedantic,
      cublas::kGemmDefault);
  if (status == cublas::kSuccess) return {};
  return Judge(status, "cublasGemmEx, m " + std::to_string(m) + ", n " + std::to_string(n) +
                           ", k " + std::to_string(k));
}

}  // namespace lockstep::gpu
