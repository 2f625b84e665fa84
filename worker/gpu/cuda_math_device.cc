#include <cuda_runtime_api.h>

#include <array>
#include <cstring>
#include <optional>

#include "worker/gpu/kernels.h"
#include "worker/gpu/math_device.h"

namespace lockstep::gpu {
namespace {

class CudaMathDevice final : public MathDevice {
 public:
  CudaMathDevice() = default;
  ~CudaMathDevice() override {
    if (!opened_ || !Use().ok()) return;  // choosing a GPU takes memory of it
    Drain();
    blas_.reset();
    for (cudaStream_t stream : streams_) {
      if (stream != nullptr) cudaStreamDestroy(stream);
    }
    cudaFree(workspace_);
  }
  CudaMathDevice(const CudaMathDevice&) = delete;
  CudaMathDevice& operator=(const CudaMathDevice&) = delete;

  DriverState State() override { return ReadDriverState(); }

  Answer FindLibrary(const std::string& cublas, std::string* version) override {
    Answer answer = blas_->Load(cublas);
    *version = blas_->version();
    return answer;
  }

  Answer Open(const MathDeviceChoice& choice) override {
    index_ = choice.index;
    opened_ = true;
    Answer answer = Use();
    if (answer.ok()) answer = blas_->Load(choice.cublas);
    if (answer.ok()) answer = MakeStreams();
    if (answer.ok()) {
      answer = FromRuntime(cudaMalloc(&workspace_, Cublas::kWorkspaceBytes), "cuBLAS's workspace");
    }
    if (answer.ok()) answer = blas_->Open(choice.tf32, StreamOf(Queue::kCompute), workspace_);
    return answer;
  }
  DeviceInfo info() const override { return DescribeDevice(index_); }

  Answer Allocate(int64_t bytes, std::byte** made) override {
    Answer answer = Use();
    if (!answer.ok()) return answer;
    void* memory = nullptr;
    answer = FromRuntime(cudaMalloc(&memory, static_cast<size_t>(bytes)),
                         std::to_string(bytes) + " bytes of GPU " + std::to_string(index_));
    if (!answer.ok()) return answer;
    *made = static_cast<std::byte*>(memory);
    return FromRuntime(
        cudaMemsetAsync(memory, 0, static_cast<size_t>(bytes), StreamOf(Queue::kCompute)),
        "zeroing memory");
  }
  void Free(std::byte* memory) override {
    if (!Use().ok()) return;
    Drain();
    cudaFree(memory);
  }
  Answer AllocateHost(int64_t bytes, std::byte** made) override {
    Answer answer = Use();
    if (!answer.ok()) return answer;
    void* memory = nullptr;
    answer = FromRuntime(cudaHostAlloc(&memory, static_cast<size_t>(bytes), cudaHostAllocPortable),
                         std::to_string(bytes) + " pinned bytes of the host");
    if (!answer.ok()) return answer;
    std::memset(memory, 0, static_cast<size_t>(bytes));
    *made = static_cast<std::byte*>(memory);
    return {};
  }
  void FreeHost(std::byte* memory) override {
    if (!Use().ok()) return;
    Drain();
    cudaFreeHost(memory);
  }

  Answer Copy(Queue queue, void* target, const void* source, int64_t bytes) override {
    Answer answer = Use();
    if (!answer.ok()) return answer;
    return FromRuntime(cudaMemcpyAsync(target, source, static_cast<size_t>(bytes),
                                       cudaMemcpyDefault, StreamOf(queue)),
                       "copying " + std::to_string(bytes) + " bytes");
  }
  Answer Multiply(const MatrixProduct& product) override {
    Answer answer = Use();
    return answer.ok() ? blas_->Multiply(product) : answer;
  }
  Answer Run(const Work& work) override {
    Answer answer = Use();
    if (!answer.ok()) return answer;
    const int error = LaunchWork(work, StreamOf(Queue::kCompute));
    return error == cudaSuccess ? Answer{} : FromRuntime(error, NameOf(work));
  }

  Answer MakeEvent(void** made) override {
    Answer answer = Use();
    if (!answer.ok()) return answer;
    cudaEvent_t event = nullptr;
    answer = FromRuntime(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
    *made = event;
    return answer;
  }
  void DestroyEvent(void* event) override {
    if (Use().ok()) cudaEventDestroy(static_cast<cudaEvent_t>(event));
  }
  Answer Record(Queue queue, void* event) override {
    Answer answer = Use();
    if (!answer.ok()) return answer;
    return FromRuntime(cudaEventRecord(static_cast<cudaEvent_t>(event), StreamOf(queue)),
                       "recording an event");
  }
  Answer WaitFor(Queue queue, void* event) override {
    Answer answer = Use();
    if (!answer.ok()) return answer;
    return FromRuntime(
        cudaStreamWaitEvent(StreamOf(queue), static_cast<cudaEvent_t>(event), /*flags=*/0),
        "waiting for an event");
  }
  Answer Query(void* event, bool* passed) override {
    Answer answer = Use();
    if (!answer.ok()) return answer;
    const cudaError_t state = cudaEventQuery(static_cast<cudaEvent_t>(event));
    *passed = state == cudaSuccess;
    if (state != cudaErrorNotReady) {
      return FromRuntime(state, "running on GPU " + std::to_string(index_));
    }
    cudaGetLastError();  // it sticks
    return {};
  }

 private:
  void Drain() {
    for (cudaStream_t stream : streams_) {
      if (stream != nullptr) cudaStreamSynchronize(stream);
    }
  }
  Answer Use() const {
    const cudaError_t error = cudaSetDevice(index_);
    if (error == cudaSuccess) return {};
    return FromRuntime(error, "choosing GPU " + std::to_string(index_));
  }
  cudaStream_t StreamOf(Queue queue) const { return streams_[static_cast<size_t>(queue)]; }

  Answer MakeStreams() {
    int least = 0;
    int greatest = 0;
    Answer answer =
        FromRuntime(cudaDeviceGetStreamPriorityRange(&least, &greatest), "stream priorities");
    const std::array priorities = {least, greatest};  // [queue]
    for (size_t i = 0; i < streams_.size() && answer.ok(); ++i) {
      answer = FromRuntime(
          cudaStreamCreateWithPriority(&streams_[i], cudaStreamNonBlocking, priorities[i]),
          "making a stream");
    }
    return answer;
  }

  int index_ = 0;
  bool opened_ = false;
  std::array<cudaStream_t, 2> streams_ = {};  // [queue]
  void* workspace_ = nullptr;
  std::optional<Cublas> blas_{std::in_place};  // gone before its stream and workspace
};

}  // namespace

std::unique_ptr<MathDevice> MakeCudaMathDevice() { return std::make_unique<CudaMathDevice>(); }

}  // namespace lockstep::gpu
