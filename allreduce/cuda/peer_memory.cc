#include "allreduce/cuda/peer_memory.h"

#include <utility>

namespace lockstep::gpu {
namespace {

// Smaller allocations may be cut from one block, and a handle would then name all of it.
constexpr int64_t kGranule = int64_t{2} << 20;

}  // namespace

PeerMemory::PeerMemory(Runtime* runtime, int ranks, bool one_device)
    : runtime_(*runtime),
      arenas_(static_cast<size_t>(ranks)),
      devices_(static_cast<size_t>(ranks), kElsewhere),
      one_device_(one_device) {}

PeerMemory::~PeerMemory() {
  for (size_t rank = 0; rank < arenas_.size(); ++rank) {
    if (arenas_[rank] == nullptr) continue;
    if (devices_[rank] == kElsewhere) {
      runtime_.CloseHandle(OwnDevice(), arenas_[rank]);
    } else {
      runtime_.Free(devices_[rank], arenas_[rank]);
    }
  }
}

Answer PeerMemory::Allocate(int rank, int device, int64_t bytes) {
  Answer made = runtime_.Allocate(device, bytes, &arenas_[static_cast<size_t>(rank)]);
  if (made.ok()) {
    devices_[static_cast<size_t>(rank)] = device;
  } else {
    made.message = "memory of rank " + std::to_string(rank) + ": " + made.message;
  }
  return made;
}

Answer PeerMemory::OnOneDevice(Runtime* runtime, int device, int ranks, int64_t bytes,
                               std::unique_ptr<PeerMemory>* made) {
  Answer answer = CheckDevices(runtime, device + 1);
  std::unique_ptr<PeerMemory> memory(new PeerMemory(runtime, ranks, /*one_device=*/true));
  for (int rank = 0; rank < ranks && answer.ok(); ++rank) {
    answer = memory->Allocate(rank, device, bytes);
  }
  if (answer.ok()) *made = std::move(memory);
  return answer;
}

Answer PeerMemory::OnDevices(Runtime* runtime, std::span<const int> devices, int64_t bytes,
                             std::unique_ptr<PeerMemory>* made) {
  int needed = 0;
  for (const int device : devices) needed = device >= needed ? device + 1 : needed;
  Answer answer = CheckDevices(runtime, needed);
  for (const int device : devices) {
    for (const int peer : devices) {
      if (device != peer && answer.ok()) answer = runtime->EnableAccess(device, peer);
    }
  }
  const auto ranks = static_cast<int>(devices.size());
  std::unique_ptr<PeerMemory> memory(new PeerMemory(runtime, ranks, /*one_device=*/false));
  for (int rank = 0; rank < ranks && answer.ok(); ++rank) {
    answer = memory->Allocate(rank, devices[static_cast<size_t>(rank)], bytes);
  }
  if (answer.ok()) *made = std::move(memory);
  return answer;
}

Answer PeerMemory::OfProcess(Runtime* runtime, const Place& place, int64_t bytes,
                             std::unique_ptr<PeerMemory>* made, std::string* handle) {
  Answer answer = CheckDevices(runtime, place.device + 1);
  std::unique_ptr<PeerMemory> memory(new PeerMemory(runtime, place.ranks, /*one_device=*/false));
  const auto own = static_cast<size_t>(place.rank);
  const int64_t whole = (bytes + kGranule - 1) / kGranule * kGranule;
  if (answer.ok()) answer = memory->Allocate(place.rank, place.device, whole);
  if (answer.ok()) answer = runtime->HandleOf(memory->arenas_[own], handle);
  if (answer.ok()) *made = std::move(memory);
  return answer;
}

int PeerMemory::OwnDevice() const {
  int device = kElsewhere;
  for (const int of_rank : devices_) device = of_rank == kElsewhere ? device : of_rank;
  return device;
}

Answer PeerMemory::OpenPeers(std::span<const std::string> handles) {
  for (size_t rank = 0; rank < arenas_.size(); ++rank) {
    if (devices_[rank] != kElsewhere) continue;
    if (handles[rank].size() != Runtime::kHandleBytes) {
      return {Refused::kInvalid, "the memory handle of rank " + std::to_string(rank) + " has " +
                                     std::to_string(handles[rank].size()) + " bytes, not " +
                                     std::to_string(Runtime::kHandleBytes)};
    }
    Answer opened = runtime_.OpenHandle(OwnDevice(), handles[rank], &arenas_[rank]);
    if (!opened.ok()) {
      arenas_[rank] = nullptr;
      opened.message = "memory of rank " + std::to_string(rank) + ": " + opened.message;
      return opened;
    }
  }
  return {};
}

}  // namespace lockstep::gpu
