#include "tests/allreduce/gpu/host_runtime.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/allreduce/cuda/host_group.h"
#include "tests/allreduce/cuda/host_team.h"
#include "tests/allreduce/host_queue.h"

namespace lockstep::gpu {
namespace {

struct Mapped {
  int64_t bytes = 0;
  int device = 0;
  int file = -1;
  int holders = 1;
};

// Thread sanitizer knows memory by its address: there a process that opens its own memory gets it
// where it is.
#ifdef __SANITIZE_THREAD__
constexpr bool kOneMapping = true;
#else
constexpr bool kOneMapping = false;
#endif

// Of this process: what memory is "on a GPU".
class Mappings {
 public:
  Answer Map(int file, int64_t bytes, int device, std::byte** made) {
    void* const memory = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                              MAP_SHARED, file, /*offset=*/0);
    if (file < 0 || memory == MAP_FAILED) return {Refused::kDevice, "out of memory"};
    *made = static_cast<std::byte*>(memory);
    const std::lock_guard lock(mutex_);
    mappings_[*made] = {bytes, device, file};
    ++TheHostCuda().memory;
    return {};
  }
  // Memory of this process's `file`; null: there is none.
  std::byte* Share(int file) {
    const std::lock_guard lock(mutex_);
    for (auto& [memory, mapped] : mappings_) {
      if (mapped.file != file) continue;
      ++mapped.holders;
      ++TheHostCuda().memory;
      return memory;
    }
    return nullptr;
  }
  void Unmap(std::byte* memory) {
    const std::lock_guard lock(mutex_);
    --TheHostCuda().memory;
    Mapped& mapped = mappings_.at(memory);
    if (--mapped.holders > 0) return;
    munmap(memory, static_cast<size_t>(mapped.bytes));
    close(mapped.file);
    mappings_.erase(memory);
  }
  Mapped Find(const void* address) {
    const std::lock_guard lock(mutex_);
    auto* const at = static_cast<std::byte*>(const_cast<void*>(address));
    auto next = mappings_.upper_bound(at);
    if (next == mappings_.begin()) return {0, Runtime::kHost};
    --next;
    return at < next->first + next->second.bytes ? next->second : Mapped{0, Runtime::kHost};
  }

 private:
  std::mutex mutex_;
  std::map<std::byte*, Mapped> mappings_;
};
Mappings& TheMappings() {
  static auto* const mappings = new Mappings;  // to the end of the process
  return *mappings;
}

// Blocks that do nothing, until they are asked to stop or their time is up.
void Hang(const Call& call, int rank) {
  while (rank == TheHostCuda().deaf_rank) std::this_thread::yield();
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(call.timeout_ns);
  while (std::atomic_ref<uint64_t>(*call.stop).load() == 0 &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
}

// All blocks at once, one thread each, as a cooperative launch has them.
void RunBlocks(const KernelLaunch& launch) {
  const CallSpec spec{.count = 0, .dtype = launch.dtype, .op = launch.op};
  std::vector<std::thread> threads;
  for (int i = 0; i < launch.block_count; ++i) {
    const Block& block = launch.blocks[i];
    const bool missing =
        block.rank == TheHostCuda().missing_rank || block.rank == TheHostCuda().deaf_rank;
    threads.emplace_back([&launch, &spec, &block, missing] {
      if (missing) return Hang(launch.call, block.rank);
      HostBlock shared(1, Planted::kNone);
      HostTeam team(&shared, 0);
      RunHostKernel(launch.kernel, spec, &team, launch.call, block);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const int wrong = TheHostCuda().wrong_rank;
  if (wrong >= 0 && launch.call.cut.elements > 0) launch.call.outputs[wrong][0] ^= std::byte{1};
}

// As a GPU copies: a rank may look at words while another writes them, and sees the old or the new
// ones.
void CopyWords(void* target, const void* source, int64_t bytes) {
  auto* const to = static_cast<uint64_t*>(target);
  auto* const from = static_cast<uint64_t*>(const_cast<void*>(source));
  for (int64_t i = 0; i < bytes / 8; ++i) {
    const uint64_t word = std::atomic_ref<uint64_t>(from[i]).load(std::memory_order_acquire);
    std::atomic_ref<uint64_t>(to[i]).store(word, std::memory_order_release);
  }
}
bool IsWords(const void* target, const void* source, int64_t bytes) {
  constexpr int64_t kBytesMax = 1024;
  const auto places = reinterpret_cast<uintptr_t>(target) | reinterpret_cast<uintptr_t>(source);
  return bytes <= kBytesMax && bytes % 8 == 0 && places % 8 == 0;
}

HostEvent* EventOf(void* event) { return static_cast<HostEvent*>(event); }
HostQueue* QueueOf(void* stream) { return static_cast<HostQueue*>(stream); }

class HostRuntime final : public Runtime {
 public:
  DriverState State() override {
    const HostCuda& host = TheHostCuda();
    return {.driver = host.driver, .runtime = 13000, .error = 0, .devices = host.devices};
  }
  DeviceInfo Describe(int device) override {
    return {.name = "host",
            .address = "0000:0" + std::to_string(device) + ":00.0",
            .multiprocessors = TheHostCuda().fitting / 2,
            .memory_bytes = int64_t{32} << 20};
  }

  Answer Allocate(int device, int64_t bytes, std::byte** made) override {
    if (device == TheHostCuda().no_memory_on) return {Refused::kDevice, "out of memory"};
    const int file = memfd_create("gpu", MFD_CLOEXEC);
    if (ftruncate(file, bytes) != 0) return {Refused::kDevice, "out of memory"};
    Answer answer = TheMappings().Map(file, bytes, device, made);
    if (answer.ok()) std::memset(*made, 0xa5, static_cast<size_t>(bytes));  // not zeroed
    return answer;
  }
  void Free(int /*device*/, std::byte* memory) override { TheMappings().Unmap(memory); }
  Answer AllocateHost(int64_t bytes, std::byte** made) override {
    *made = static_cast<std::byte*>(std::calloc(1, static_cast<size_t>(bytes)));
    return {};
  }
  void FreeHost(std::byte* memory) override { std::free(memory); }
  Answer DeviceOf(int device, const void* address, int* where) override {
    if (device == TheHostCuda().unknown_on) return {Refused::kDevice, "whose memory: a sick GPU"};
    *where = TheMappings().Find(address).device;
    return {};
  }

  Answer EnableAccess(int device, int peer) override {
    const int alone = TheHostCuda().unreachable;
    if (alone != device && alone != peer) return {};
    return {Refused::kNoPeerAccess, "GPU " + std::to_string(device) +
                                        " can't reach the memory of GPU " + std::to_string(peer)};
  }
  Answer HandleOf(std::byte* memory, std::string* handle) override {
    ++TheHostCuda().handles;
    const Mapped mapped = TheMappings().Find(memory);
    *handle = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(mapped.file) + " " +
              std::to_string(mapped.bytes);
    handle->resize(kHandleBytes, '\0');
    return {};
  }
  Answer OpenHandle(int device, const std::string& handle, std::byte** made) override {
    if (const int error = TheHostCuda().sharing_error; error != 0) {
      return JudgeSharing(error, "opening another process's memory");
    }
    const size_t space = handle.find(' ');
    if (kOneMapping) {
      *made = TheMappings().Share(std::atoi(handle.c_str() + handle.rfind('/') + 1));
      if (*made != nullptr) return {};
    }
    const int file = open(handle.substr(0, space).c_str(), O_RDWR | O_CLOEXEC);
    return TheMappings().Map(file, std::atoll(handle.c_str() + space), device, made);
  }
  void CloseHandle(int /*device*/, std::byte* memory) override { TheMappings().Unmap(memory); }

  Answer MakeStream(int /*device*/, void** made) override {
    *made = new HostQueue;
    return {};
  }
  void DestroyStream(int /*device*/, void* stream) override { delete QueueOf(stream); }
  Answer Copy(int /*device*/, void* stream, void* target, const void* source,
              int64_t bytes) override {
    QueueOf(stream)->Add([=] {
      if (IsWords(target, source, bytes)) return CopyWords(target, source, bytes);
      std::memmove(target, source, static_cast<size_t>(bytes));
    });
    return {};
  }
  Answer Zero(int /*device*/, void* stream, std::byte* memory, int64_t bytes) override {
    QueueOf(stream)->Add([=] { std::memset(memory, 0, static_cast<size_t>(bytes)); });
    return {};
  }
  Answer Query(int /*device*/, void* stream, bool* idle) override {
    *idle = QueueOf(stream)->Idle();
    return {};
  }
  Answer MakeEvent(int /*device*/, void** made) override {
    *made = new HostEvent;
    return {};
  }
  void DestroyEvent(int /*device*/, void* event) override { delete EventOf(event); }
  Answer Record(int /*device*/, void* stream, void* event) override {
    EventOf(event)->reached = false;
    QueueOf(stream)->Add([event] {
      EventOf(event)->at = std::chrono::steady_clock::now();
      EventOf(event)->reached = true;
    });
    return {};
  }
  Answer ElapsedUs(int /*device*/, void* begin, void* end, double* elapsed_us) override {
    const auto elapsed = EventOf(end)->at - EventOf(begin)->at;
    *elapsed_us = std::chrono::duration<double, std::micro>(elapsed).count();
    return {};
  }
  Answer Reached(int /*device*/, void* event, bool* reached) override {
    *reached = EventOf(event)->reached;
    ++TheHostCuda().asked_for_event;
    return {};
  }
  Answer BlocksThatFit(const KernelLaunch& /*launch*/, int* blocks) override {
    *blocks = TheHostCuda().fitting;
    return {};
  }
  Answer Launch(const KernelLaunch& launch) override {
    if (launch.device == TheHostCuda().failing_launch) return {Refused::kDevice, "a broken GPU"};
    ++TheHostCuda().launches;
    QueueOf(launch.stream)->Add([launch] { RunBlocks(launch); });
    return {};
  }
};

}  // namespace

HostCuda& TheHostCuda() {
  static HostCuda host;
  static const bool read = [] {  // where real processes load this, their environment says
    const auto set = [](const char* name, std::atomic<int>* value) {
      const char* const text = std::getenv(name);
      if (text != nullptr) *value = std::atoi(text);
    };
    set("LOCKSTEP_TEST_GPUS", &host.devices);
    set("LOCKSTEP_TEST_BLOCKS", &host.fitting);
    set("LOCKSTEP_TEST_WRONG_RANK", &host.wrong_rank);
    return true;
  }();
  static_cast<void>(read);
  return host;
}

std::shared_ptr<Runtime> MakeHostRuntime() { return std::make_shared<HostRuntime>(); }

}  // namespace lockstep::gpu
