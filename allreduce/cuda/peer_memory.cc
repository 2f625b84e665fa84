#include "allreduce/cuda/peer_memory.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace lockstep::gpu {
namespace {

// Smaller allocations may be cut from one block, and a handle would then name all of it.
constexpr int64_t kGranule = int64_t{2} << 20;
// Microseconds, and the driver's start.
constexpr std::chrono::milliseconds kZero(10'000);

// Memory of this process that others may still have open, and that nobody uses.
class Parked {
 public:
  void Put(int device, int64_t bytes, std::byte* memory) {
    const std::lock_guard lock(mutex_);
    places_.push_back({device, bytes, memory});
  }
  std::byte* Take(int device, int64_t bytes) {  // null: there is none
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(places_.begin(), places_.end(), [&](const Place& place) {
      return place.device == device && place.bytes == bytes;
    });
    if (found == places_.end()) return nullptr;
    std::byte* const memory = found->memory;
    places_.erase(found);
    return memory;
  }

 private:
  struct Place {
    int device = 0;
    int64_t bytes = 0;
    std::byte* memory = nullptr;
  };
  std::mutex mutex_;
  std::vector<Place> places_;
};
Parked& TheParked() {
  static auto* const parked = new Parked;  // to the end of the process, as its memory
  return *parked;
}

}  // namespace

Answer ZeroWithin(Runtime* runtime, int device, std::span<std::byte> memory,
                  std::chrono::milliseconds limit) {
  void* stream = nullptr;
  Answer answer = runtime->MakeStream(device, &stream);
  if (!answer.ok()) return answer;
  answer = runtime->Zero(device, stream, memory.data(), static_cast<int64_t>(memory.size()));
  if (answer.ok()) {
    const std::string what = "zeroing " + std::to_string(memory.size()) + " bytes";
    answer = AwaitStream(runtime, device, stream, limit, what);
  }
  runtime->DestroyStream(device, stream);
  return answer;
}

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
      Release(devices_[rank], arenas_[rank]);
    }
  }
}

void PeerMemory::Release(int device, std::byte* memory) {
  if (named_bytes_ == 0) return runtime_.Free(device, memory);
  if (idle_) TheParked().Put(device, named_bytes_, memory);
}

Answer PeerMemory::Allocate(int rank, int device, int64_t bytes) {
  std::byte*& memory = arenas_[static_cast<size_t>(rank)];
  if (named_bytes_ > 0) memory = TheParked().Take(device, bytes);
  Answer made = memory == nullptr ? runtime_.Allocate(device, bytes, &memory) : Answer{};
  if (made.ok()) {
    made = ZeroWithin(&runtime_, device, {memory, static_cast<size_t>(bytes)}, kZero);
  }
  if (made.ok()) {
    devices_[static_cast<size_t>(rank)] = device;
  } else {
    memory = nullptr;  // what may still be zeroed is kept
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
  const bool named = place.ranks > 1;
  if (named) memory->named_bytes_ = whole;
  if (answer.ok()) answer = memory->Allocate(place.rank, place.device, whole);
  handle->assign(Runtime::kHandleBytes, '\0');  // of one rank: nobody opens it
  if (answer.ok() && named) answer = runtime->HandleOf(memory->arenas_[own], handle);
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
