// device_team.h: the Team of allreduce/cuda/wait.h on a GPU: the threads of one block. Flags are
// acquired and released at the scope of the device where all ranks are on one, else of the system;
// loads and stores only, since read-modify-write is not guaranteed between devices. Data are read
// by plain loads: never through the cache that is not coherent. For nvcc alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda/atomic>

#include "allreduce/cuda/call.h"

namespace lockstep::gpu {

class DeviceTeam {
 public:
  static constexpr bool kNotes = false;

  __device__ explicit DeviceTeam(bool one_device) : one_device_(one_device) {}

  __device__ int rank() const { return static_cast<int>(threadIdx.x); }
  __device__ int size() const { return static_cast<int>(blockDim.x); }
  __device__ void Sync() const { __syncthreads(); }
  __device__ bool Any(bool mine) const { return __syncthreads_or(mine ? 1 : 0) != 0; }
  // The first looks follow each other at once; a long wait leaves the memory to those that work.
  __device__ void Pause(uint32_t spins) const {
    if (spins >= kSpinsAtOnce) __nanosleep(kNapNs);
  }
  __device__ int64_t NowNs() const {
    int64_t now_ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now_ns));
    return now_ns;
  }

  __device__ uint64_t LoadAcquire(const uint64_t* flag) const {
    auto* const at = const_cast<uint64_t*>(flag);
    return one_device_ ? Near(*at).load(::cuda::std::memory_order_acquire)
                       : Far(*at).load(::cuda::std::memory_order_acquire);
  }
  __device__ void StoreRelease(uint64_t* flag, uint64_t value) const {
    if (one_device_) {
      Near(*flag).store(value, ::cuda::std::memory_order_release);
    } else {
      Far(*flag).store(value, ::cuda::std::memory_order_release);
    }
  }
  // The host's to set as well, whatever the ranks' scope.
  __device__ bool Stopped(const uint64_t* stop) const {
    return Far(*const_cast<uint64_t*>(stop)).load(::cuda::std::memory_order_acquire) != 0;
  }
  __device__ void Stop(uint64_t* stop) const {
    Far(*stop).store(1, ::cuda::std::memory_order_release);
  }
  __device__ uint64_t LoadRelaxed(const uint64_t* word) const {
    return Far(*const_cast<uint64_t*>(word)).load(::cuda::std::memory_order_relaxed);
  }
  __device__ void StoreRelaxed(uint64_t* word, uint64_t value) const {
    Far(*word).store(value, ::cuda::std::memory_order_relaxed);
  }
  __device__ void Put(uint64_t* at, uint32_t flag, uint32_t data) const {
    StoreRelaxed(at, static_cast<uint64_t>(flag) << 32 | data);
  }
  __device__ bool Take(const uint64_t* at, uint32_t flag, uint32_t* data) const {
    const uint64_t word = LoadRelaxed(at);
    *data = static_cast<uint32_t>(word);
    return static_cast<uint32_t>(word >> 32) == flag;
  }

  template <typename T>
  __device__ T Load(const std::byte* address) const {
    if constexpr (sizeof(T) == kPackBytes) {
      return __builtin_bit_cast(T, *reinterpret_cast<const uint4*>(address));
    } else {
      return *reinterpret_cast<const T*>(address);
    }
  }
  template <typename T>
  __device__ void Store(std::byte* address, const T& value) const {
    if constexpr (sizeof(T) == kPackBytes) {
      *reinterpret_cast<uint4*>(address) = __builtin_bit_cast(uint4, value);
    } else {
      *reinterpret_cast<T*>(address) = value;
    }
  }

 private:
  using Near = ::cuda::atomic_ref<uint64_t, ::cuda::thread_scope_device>;
  using Far = ::cuda::atomic_ref<uint64_t, ::cuda::thread_scope_system>;

  static constexpr uint32_t kSpinsAtOnce = 16;
  static constexpr unsigned kNapNs = 40;

  const bool one_device_;
};

}  // namespace lockstep::gpu
