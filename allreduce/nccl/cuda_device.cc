#include "allreduce/nccl/cuda_device.h"

#include <cuda_runtime_api.h>

#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "allreduce/cuda/device.h"
#include "base/status.h"

namespace lockstep::nccl {
namespace {

absl::Status ToStatus(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();  // or it would stick to the next call
  const std::string text = absl::StrCat("nccl: ", gpu::FromRuntime(error, what).message);
  return error == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(text)
                                            : absl::UnavailableError(text);
}

class CudaDevice final : public Device {
 public:
  CudaDevice() = default;
  ~CudaDevice() override {
    if (stream_ == nullptr || cudaSetDevice(index_) != cudaSuccess) return;
    FreeMemory();
    cudaStreamDestroy(stream_);
  }
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  absl::StatusOr<DeviceState> Look() override {
    const gpu::DriverState driver = gpu::ReadDriverState();
    if (const gpu::Answer answer = gpu::Judge(driver, 1); !answer.ok()) {
      return absl::FailedPreconditionError(absl::StrCat("nccl: ", answer.message));
    }
    DeviceState state{
        .driver = driver.driver, .runtime = driver.runtime, .machine = {}, .gpus = {}};
    state.machine = gpu::MachineId();
    if (state.machine.empty()) {
      return absl::FailedPreconditionError("nccl: this machine does not tell its boot_id in /proc");
    }
    for (int index = 0; index < driver.devices; ++index) {
      std::array<char, 32> address{};
      RETURN_IF_ERROR(
          ToStatus(cudaDeviceGetPCIBusId(address.data(), address.size(), index), "bus address"));
      state.gpus.emplace_back(address.data());
    }
    return state;
  }

  absl::Status Open(int index) override {
    index_ = index;
    RETURN_IF_ERROR(Use());
    return ToStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
  }

  absl::StatusOr<StagingMemory> Reserve(int64_t bytes) override {
    RETURN_IF_ERROR(Use());
    if (bytes > bytes_) {
      FreeMemory();
      const auto size = static_cast<size_t>(bytes);
      void* host = nullptr;
      void* device = nullptr;
      absl::Status status =
          ToStatus(cudaMallocHost(&host, size), absl::StrCat("pinning ", bytes, " bytes"));
      if (status.ok()) {
        status = ToStatus(cudaMalloc(&device, size),
                          absl::StrCat("taking ", bytes, " bytes of the GPU's memory"));
      }
      memory_ = {static_cast<std::byte*>(host), static_cast<std::byte*>(device)};
      if (!status.ok()) FreeMemory();
      RETURN_IF_ERROR(status);
      bytes_ = bytes;
    }
    return memory_;
  }

  absl::Status CopyIn(int64_t first, int64_t bytes) override {
    return Copy(memory_.device + first, memory_.host + first, bytes, cudaMemcpyHostToDevice);
  }
  absl::Status CopyOut(int64_t first, int64_t bytes) override {
    return Copy(memory_.host + first, memory_.device + first, bytes, cudaMemcpyDeviceToHost);
  }

  absl::StatusOr<bool> Idle() override {
    if (stream_ == nullptr) return true;
    RETURN_IF_ERROR(Use());
    const cudaError_t state = cudaStreamQuery(stream_);
    if (state == cudaErrorNotReady) {
      cudaGetLastError();
      return false;
    }
    RETURN_IF_ERROR(ToStatus(state, "the stream"));
    return true;
  }

  absl::StatusOr<void*> Stream() override {
    RETURN_IF_ERROR(Use());
    return static_cast<void*>(stream_);
  }

 private:
  absl::Status Use() const { return ToStatus(cudaSetDevice(index_), "choosing a GPU"); }

  absl::Status Copy(void* target, const void* source, int64_t bytes, cudaMemcpyKind kind) {
    RETURN_IF_ERROR(Use());
    return ToStatus(cudaMemcpyAsync(target, source, static_cast<size_t>(bytes), kind, stream_),
                    "copying");
  }

  void FreeMemory() {
    cudaFreeHost(memory_.host);
    cudaFree(memory_.device);
    memory_ = {};
    bytes_ = 0;
  }

  int index_ = 0;
  cudaStream_t stream_ = nullptr;
  StagingMemory memory_;
  int64_t bytes_ = 0;
};

}  // namespace

std::unique_ptr<Device> MakeCudaDevice() { return std::make_unique<CudaDevice>(); }

}  // namespace lockstep::nccl
