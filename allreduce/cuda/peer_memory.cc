#include "allreduce/cuda/peer_memory.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <utility>

namespace lockstep::gpu {
namespace {

// Both ways are asked for by the caller.
Answer EnableAccess(int device, int peer) {
  int can = 0;
  Answer asked = FromRuntime(cudaDeviceCanAccessPeer(&can, device, peer), "asking for peer access");
  if (!asked.ok()) return asked;
  if (can == 0) {
    return {Refused::kNoPeerAccess, "GPU " + std::to_string(device) +
                                        " can't reach the memory of GPU " + std::to_string(peer) +
                                        ": choose GPUs that are linked, or engine NCCL"};
  }
  Answer chosen = FromRuntime(cudaSetDevice(device), "choosing a device");
  if (!chosen.ok()) return chosen;
  const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
  if (error == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();  // it sticks
    return {};
  }
  return FromRuntime(error, "enabling peer access");
}

}  // namespace

PeerMemory::PeerMemory(int ranks, bool one_device)
    : arenas_(static_cast<size_t>(ranks)),
      devices_(static_cast<size_t>(ranks), kElsewhere),
      one_device_(one_device) {}

PeerMemory::~PeerMemory() {
  for (size_t rank = 0; rank < arenas_.size(); ++rank) {
    if (arenas_[rank] == nullptr) continue;
    if (devices_[rank] == kElsewhere) {
      cudaIpcCloseMemHandle(arenas_[rank]);
    } else {
      cudaSetDevice(devices_[rank]);
      cudaFree(arenas_[rank]);
    }
  }
}

Answer PeerMemory::Allocate(int rank, int device, int64_t bytes) {
  Answer chosen = FromRuntime(cudaSetDevice(device), "choosing GPU " + std::to_string(device));
  if (!chosen.ok()) return chosen;
  void* memory = nullptr;
  Answer made = FromRuntime(
      cudaMalloc(&memory, static_cast<size_t>(bytes)),
      "an arena of " + std::to_string(bytes) + " bytes for rank " + std::to_string(rank));
  if (!made.ok()) return made;
  arenas_[static_cast<size_t>(rank)] = static_cast<std::byte*>(memory);
  devices_[static_cast<size_t>(rank)] = device;
  Answer zeroed = FromRuntime(cudaMemset(memory, 0, static_cast<size_t>(bytes)), "zeroing it");
  if (!zeroed.ok()) return zeroed;
  return FromRuntime(cudaDeviceSynchronize(), "zeroing it");
}

Answer PeerMemory::Open(int rank, const std::string& handle) {
  cudaIpcMemHandle_t opaque;
  if (handle.size() != sizeof(opaque)) {
    return {Refused::kInvalid, "the memory handle of rank " + std::to_string(rank) + " has " +
                                   std::to_string(handle.size()) + " bytes, not " +
                                   std::to_string(sizeof(opaque))};
  }
  std::memcpy(&opaque, handle.data(), sizeof(opaque));
  void* memory = nullptr;
  Answer opened = FromRuntime(cudaIpcOpenMemHandle(&memory, opaque, cudaIpcMemLazyEnablePeerAccess),
                              "opening the memory of rank " + std::to_string(rank));
  if (opened.ok()) arenas_[static_cast<size_t>(rank)] = static_cast<std::byte*>(memory);
  return opened;
}

Answer PeerMemory::OnOneDevice(int device, int ranks, int64_t bytes,
                               std::unique_ptr<PeerMemory>* made) {
  Answer answer = CheckDevices(device + 1);
  std::unique_ptr<PeerMemory> memory(new PeerMemory(ranks, /*one_device=*/true));
  for (int rank = 0; rank < ranks && answer.ok(); ++rank) {
    answer = memory->Allocate(rank, device, bytes);
  }
  if (answer.ok()) *made = std::move(memory);
  return answer;
}

Answer PeerMemory::OnDevices(std::span<const int> devices, int64_t bytes,
                             std::unique_ptr<PeerMemory>* made) {
  int needed = 0;
  for (const int device : devices) needed = device >= needed ? device + 1 : needed;
  Answer answer = CheckDevices(needed);
  for (const int device : devices) {
    for (const int peer : devices) {
      if (device != peer && answer.ok()) answer = EnableAccess(device, peer);
    }
  }
  const auto ranks = static_cast<int>(devices.size());
  std::unique_ptr<PeerMemory> memory(new PeerMemory(ranks, /*one_device=*/false));
  for (int rank = 0; rank < ranks && answer.ok(); ++rank) {
    answer = memory->Allocate(rank, devices[static_cast<size_t>(rank)], bytes);
  }
  if (answer.ok()) *made = std::move(memory);
  return answer;
}

Answer PeerMemory::OfProcess(int rank, int ranks, int device, int64_t bytes,
                             const Exchange& exchange, std::unique_ptr<PeerMemory>* made) {
  Answer answer = CheckDevices(device + 1);
  std::unique_ptr<PeerMemory> memory(new PeerMemory(ranks, /*one_device=*/false));
  if (answer.ok()) answer = memory->Allocate(rank, device, bytes);
  cudaIpcMemHandle_t own{};
  if (answer.ok()) {
    answer = FromRuntime(cudaIpcGetMemHandle(&own, memory->arenas_[static_cast<size_t>(rank)]),
                         "making a handle for other processes");
  }
  // A rank that failed takes part all the same, or the others would wait: an empty handle tells.
  std::string text(sizeof(own), '\0');
  if (answer.ok()) std::memcpy(text.data(), &own, sizeof(own));
  const std::vector<std::string> handles = exchange(text);
  if (!answer.ok()) return answer;
  if (handles.size() != static_cast<size_t>(ranks)) {
    return {Refused::kRankFailed, "the ranks' memory handles could not be exchanged"};
  }
  for (int peer = 0; peer < ranks && answer.ok(); ++peer) {
    const std::string& handle = handles[static_cast<size_t>(peer)];
    if (peer == rank) continue;
    if (handle == std::string(sizeof(own), '\0')) {
      return {Refused::kRankFailed,
              "rank " + std::to_string(peer) + " has no memory to share; it says why itself"};
    }
    answer = memory->Open(peer, handle);
  }
  if (answer.ok()) *made = std::move(memory);
  return answer;
}

}  // namespace lockstep::gpu
