#include <cuda_runtime_api.h>

#include <cstring>

#include "allreduce/cuda/kernels.h"
#include "allreduce/cuda/runtime.h"

namespace lockstep::gpu {
namespace {

cudaStream_t StreamOf(void* stream) { return static_cast<cudaStream_t>(stream); }

static_assert(runtime_error::kOldDriver == cudaErrorInsufficientDriver);
static_assert(runtime_error::kNoDevice == cudaErrorNoDevice);
static_assert(runtime_error::kCantMap == cudaErrorMapBufferObjectFailed);
static_assert(runtime_error::kCantReachPeer == cudaErrorPeerAccessUnsupported);
static_assert(runtime_error::kOperatingSystem == cudaErrorOperatingSystem);
static_assert(runtime_error::kStaleHandle == cudaErrorInvalidResourceHandle);
static_assert(runtime_error::kTooManyPeers == cudaErrorTooManyPeers);
static_assert(runtime_error::kNotSupported == cudaErrorNotSupported);

// An error that the runtime keeps would otherwise stick to the next call.
Answer Sharing(cudaError_t error, const std::string& operation) {
  if (error != cudaSuccess) cudaGetLastError();
  return JudgeSharing(error, FromRuntime(error, operation).message);
}

Answer Use(int device) {
  return FromRuntime(cudaSetDevice(device), "choosing GPU " + std::to_string(device));
}

class CudaRuntime final : public Runtime {
 public:
  DriverState State() override { return ReadDriverState(); }
  DeviceInfo Describe(int device) override { return DescribeDevice(device); }

  Answer Allocate(int device, int64_t bytes, std::byte** made) override {
    Answer answer = Use(device);
    if (!answer.ok()) return answer;
    void* memory = nullptr;
    answer = FromRuntime(cudaMalloc(&memory, static_cast<size_t>(bytes)),
                         std::to_string(bytes) + " bytes of GPU " + std::to_string(device));
    *made = static_cast<std::byte*>(memory);
    return answer;
  }
  void Free(int device, std::byte* memory) override {
    cudaSetDevice(device);
    cudaFree(memory);
  }

  Answer AllocateHost(int64_t bytes, std::byte** made) override {
    void* memory = nullptr;
    Answer answer = FromRuntime(cudaHostAlloc(&memory, static_cast<size_t>(bytes),
                                              cudaHostAllocPortable | cudaHostAllocMapped),
                                std::to_string(bytes) + " pinned bytes of the host");
    if (!answer.ok()) return answer;
    std::memset(memory, 0, static_cast<size_t>(bytes));
    *made = static_cast<std::byte*>(memory);
    return {};
  }
  void FreeHost(std::byte* memory) override { cudaFreeHost(memory); }

  Answer DeviceOf(int device, const void* address, int* where) override {
    // A thread that has chosen none would start a context on the first GPU.
    Answer answer = Use(device);
    if (!answer.ok()) return answer;
    cudaPointerAttributes attributes{};
    answer = FromRuntime(cudaPointerGetAttributes(&attributes, address),
                         "asking whose memory an address is");
    *where = attributes.type == cudaMemoryTypeDevice ? attributes.device : kHost;
    return answer;
  }

  Answer EnableAccess(int device, int peer) override {
    int can = 0;
    Answer asked =
        FromRuntime(cudaDeviceCanAccessPeer(&can, device, peer), "asking for peer access");
    if (!asked.ok()) return asked;
    if (can == 0) {
      return {Refused::kNoPeerAccess, "GPU " + std::to_string(device) +
                                          " can't reach the memory of GPU " + std::to_string(peer) +
                                          ": choose GPUs that are linked, or engine NCCL"};
    }
    Answer chosen = Use(device);
    if (!chosen.ok()) return chosen;
    const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled) {
      cudaGetLastError();  // it sticks
      return {};
    }
    return FromRuntime(error, "enabling peer access");
  }

  Answer HandleOf(std::byte* memory, std::string* handle) override {
    static_assert(sizeof(cudaIpcMemHandle_t) == kHandleBytes);
    cudaIpcMemHandle_t opaque{};
    Answer answer =
        Sharing(cudaIpcGetMemHandle(&opaque, memory), "making a handle for other processes");
    handle->resize(sizeof(opaque));
    std::memcpy(handle->data(), &opaque, sizeof(opaque));
    return answer;
  }
  Answer OpenHandle(int device, const std::string& handle, std::byte** made) override {
    Answer answer = Use(device);
    if (!answer.ok()) return answer;
    cudaIpcMemHandle_t opaque{};
    std::memcpy(&opaque, handle.data(), sizeof(opaque));
    void* memory = nullptr;
    answer = Sharing(cudaIpcOpenMemHandle(&memory, opaque, cudaIpcMemLazyEnablePeerAccess),
                     "opening another process's memory on GPU " + std::to_string(device));
    *made = static_cast<std::byte*>(memory);
    return answer;
  }
  void CloseHandle(int device, std::byte* memory) override {
    cudaSetDevice(device);
    cudaIpcCloseMemHandle(memory);
  }

  Answer MakeStream(int device, void** made) override {
    Answer answer = Use(device);
    int least = 0;
    int greatest = 0;
    if (answer.ok()) {
      answer =
          FromRuntime(cudaDeviceGetStreamPriorityRange(&least, &greatest), "stream priorities");
    }
    cudaStream_t stream = nullptr;
    if (answer.ok()) {
      answer = FromRuntime(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest),
                           "making a stream");
    }
    *made = stream;
    return answer;
  }
  void DestroyStream(int device, void* stream) override {
    cudaSetDevice(device);
    cudaStreamDestroy(StreamOf(stream));
  }
  Answer Copy(int device, void* stream, void* target, const void* source, int64_t bytes) override {
    Answer answer = Use(device);
    if (!answer.ok()) return answer;
    return FromRuntime(cudaMemcpyAsync(target, source, static_cast<size_t>(bytes),
                                       cudaMemcpyDefault, StreamOf(stream)),
                       "copying " + std::to_string(bytes) + " bytes");
  }
  Answer Zero(int device, void* stream, std::byte* memory, int64_t bytes) override {
    Answer answer = Use(device);
    if (!answer.ok()) return answer;
    return FromRuntime(cudaMemsetAsync(memory, 0, static_cast<size_t>(bytes), StreamOf(stream)),
                       "zeroing memory");
  }
  Answer Query(int device, void* stream, bool* idle) override {
    Answer answer = Use(device);
    if (!answer.ok()) return answer;
    const cudaError_t state = cudaStreamQuery(StreamOf(stream));
    *idle = state != cudaErrorNotReady;
    if (!*idle) {
      cudaGetLastError();
      return {};
    }
    return FromRuntime(state, "running on GPU " + std::to_string(device));
  }

  Answer MakeEvent(int device, void** made) override {
    Answer answer = Use(device);
    cudaEvent_t event = nullptr;
    if (answer.ok()) answer = FromRuntime(cudaEventCreate(&event), "making an event");
    *made = event;
    return answer;
  }
  void DestroyEvent(int device, void* event) override {
    cudaSetDevice(device);
    cudaEventDestroy(static_cast<cudaEvent_t>(event));
  }
  Answer Record(int device, void* stream, void* event) override {
    Answer answer = Use(device);
    if (!answer.ok()) return answer;
    return FromRuntime(cudaEventRecord(static_cast<cudaEvent_t>(event), StreamOf(stream)),
                       "recording an event");
  }
  Answer ElapsedUs(int device, void* begin, void* end, double* elapsed_us) override {
    Answer answer = Use(device);
    if (!answer.ok()) return answer;
    float elapsed_ms = 0;
    answer = FromRuntime(cudaEventElapsedTime(&elapsed_ms, static_cast<cudaEvent_t>(begin),
                                              static_cast<cudaEvent_t>(end)),
                         "the time between two events");
    *elapsed_us = 1e3 * static_cast<double>(elapsed_ms);
    return answer;
  }
  Answer Reached(int device, void* event, bool* reached) override {
    Answer answer = Use(device);
    if (!answer.ok()) return answer;
    const cudaError_t state = cudaEventQuery(static_cast<cudaEvent_t>(event));
    *reached = state != cudaErrorNotReady;
    if (!*reached) {
      cudaGetLastError();
      return {};
    }
    return FromRuntime(state, "what a call's data come from, on GPU " + std::to_string(device));
  }

  Answer BlocksThatFit(const KernelLaunch& launch, int* blocks) override {
    Answer answer = Use(launch.device);
    if (!answer.ok()) return answer;
    int per_processor = 0;
    answer = FromRuntime(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                             &per_processor, FunctionOf(launch.kernel, launch.dtype, launch.op),
                             launch.threads, /*dynamicSMemSize=*/0),
                         "asking how many blocks fit");
    *blocks = per_processor * DescribeDevice(launch.device).multiprocessors;
    return answer;
  }
  Answer Launch(const KernelLaunch& launch) override {
    Answer answer = Use(launch.device);
    if (!answer.ok()) return answer;
    Call call = launch.call;
    const Block* blocks = launch.blocks;
    void* arguments[] = {&call, &blocks};
    return FromRuntime(
        cudaLaunchCooperativeKernel(FunctionOf(launch.kernel, launch.dtype, launch.op),
                                    dim3(static_cast<unsigned>(launch.block_count)),
                                    dim3(static_cast<unsigned>(launch.threads)), arguments,
                                    /*sharedMem=*/0, StreamOf(launch.stream)),
        "launching a kernel on GPU " + std::to_string(launch.device));
  }
};

}  // namespace

const void* FunctionOf(Kernel kernel, Dtype dtype, ReduceOp op) {
  switch (kernel) {
    case Kernel::kRing:
      return RingFunction(dtype, op);
    case Kernel::kTree:
    case Kernel::kDoubleTree:
      return TreeFunction(dtype, op);
    case Kernel::kDirect:
      return DirectFunction(dtype, op);
    case Kernel::kPull:
      return PullFunction(dtype, op);
    case Kernel::kPacket:
      return PacketFunction(dtype, op);
  }
  return nullptr;
}

std::unique_ptr<Runtime> MakeCudaRuntime() { return std::make_unique<CudaRuntime>(); }

}  // namespace lockstep::gpu
