#include "tests/worker/gpu/host_math_device.h"

#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace lockstep {
namespace {

using gpu::Answer;
using gpu::Queue;
using gpu::Refused;

struct Event {
  int64_t recorded = 0;
  int64_t passed = 0;
};

// A task, or a wait for what an event had recorded.
struct Task {
  std::function<void()> run;
  Event* event = nullptr;
  int64_t recorded = 0;
};

class HostMathDevice final : public gpu::MathDevice {
 public:
  explicit HostMathDevice(const HostGpuSettings& settings) : settings_(settings) {}
  ~HostMathDevice() override {
    Drain();
    for (const auto& [memory, bytes] : device_memory_) munmap(memory, bytes);
  }

  gpu::DriverState State() override { return settings_.state; }
  Answer FindLibrary(const std::string& cublas, std::string* version) override {
    Answer answer = blas_.Load(cublas);
    *version = blas_.version();
    return answer;
  }
  Answer Open(const gpu::MathDeviceChoice& choice) override {
    info_.name = "Host " + std::to_string(choice.index);
    Answer answer = Check("opening");
    if (answer.ok()) answer = blas_.Load(choice.cublas);
    return answer.ok() ? blas_.Open(choice.tf32, this, this) : answer;
  }
  gpu::DeviceInfo info() const override { return info_; }

  Answer Allocate(int64_t bytes, std::byte** made) override {
    Answer answer = Check(std::to_string(bytes) + " bytes of the GPU");
    if (!answer.ok()) return answer;
    const size_t size = static_cast<size_t>(bytes) + 1;  // mmap wants at least one
    void* const memory =
        mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0);
    if (memory == MAP_FAILED) return {Refused::kDevice, "no memory"};
    const std::lock_guard lock(mu_);
    device_memory_[memory] = size;
    *made = static_cast<std::byte*>(memory);
    return {};
  }
  void Free(std::byte* memory) override {
    Drain();
    const std::lock_guard lock(mu_);
    munmap(memory, device_memory_.at(memory));
    device_memory_.erase(memory);
  }
  Answer AllocateHost(int64_t bytes, std::byte** made) override {
    Answer answer = Check(std::to_string(bytes) + " pinned bytes");
    if (answer.ok()) {
      *made = static_cast<std::byte*>(std::calloc(static_cast<size_t>(bytes) + 1, 1));
    }
    return answer;
  }
  void FreeHost(std::byte* memory) override {
    Drain();
    std::free(memory);
  }

  Answer Copy(Queue queue, void* target, const void* source, int64_t bytes) override {
    return Add(queue, "copying " + std::to_string(bytes) + " bytes",
               [=] { std::memcpy(target, source, static_cast<size_t>(bytes)); });
  }
  Answer Multiply(const gpu::MatrixProduct& product) override {
    return Add(Queue::kCompute, "cublasGemmEx", [this, product] {
      const Answer answer = blas_.Multiply(product);
      if (!answer.ok()) late_ = answer;
    });
  }
  Answer Run(const gpu::Work& work) override {
    return Add(Queue::kCompute, NameOf(work), [work] {
      std::visit(
          [](const auto& one) {
            // The last part first: the order must not matter.
            for (int64_t i = one.count(); i > 0; --i) one(i - 1);
          },
          work);
    });
  }

  Answer MakeEvent(void** made) override {
    *made = new Event;  // DestroyEvent's
    return Check("an event");
  }
  void DestroyEvent(void* event) override {
    Drain();
    delete static_cast<Event*>(event);
  }
  Answer Record(Queue queue, void* event) override {
    auto* const one = static_cast<Event*>(event);
    const std::lock_guard lock(mu_);
    const int64_t recorded = ++one->recorded;
    queues_[static_cast<size_t>(queue)].push_back({[=] { one->passed = recorded; }});
    return {};
  }
  Answer WaitFor(Queue queue, void* event) override {
    auto* const one = static_cast<Event*>(event);
    const std::lock_guard lock(mu_);
    queues_[static_cast<size_t>(queue)].push_back({nullptr, one, one->recorded});
    return {};
  }
  Answer Query(void* event, bool* passed) override {
    const std::lock_guard lock(mu_);
    *passed = false;
    if (settings_.hangs) return {};
    StepAll();
    const auto* const one = static_cast<const Event*>(event);
    *passed = one->passed == one->recorded;
    return late_;
  }

 private:
  Answer Check(const std::string& call) {
    const std::lock_guard lock(mu_);
    if (settings_.fails.empty() || call.find(settings_.fails) == std::string::npos) return {};
    if (settings_.fails_after-- > 0) return {};
    // A GPU that has failed runs nothing more.
    for (std::deque<Task>& queue : queues_) queue.clear();
    return {Refused::kDevice, call + ": unspecified launch failure"};
  }
  Answer Add(Queue queue, const std::string& call, std::function<void()> run) {
    Answer answer = Check(call);
    if (!answer.ok()) return answer;
    const std::lock_guard lock(mu_);
    queues_[static_cast<size_t>(queue)].push_back({std::move(run)});
    return {};
  }

  // One task of each queue, if it may run. False: there was none.
  bool StepAll() {
    bool ran = false;
    for (std::deque<Task>& queue : queues_) {
      if (queue.empty()) continue;
      const Task& task = queue.front();
      if (task.event != nullptr && task.event->passed < task.recorded) continue;
      if (task.run) {
        Protect(PROT_READ | PROT_WRITE);
        task.run();
        Protect(PROT_NONE);
      }
      queue.pop_front();
      ran = true;
    }
    return ran;
  }
  void Drain() {
    const std::lock_guard lock(mu_);
    while (StepAll()) {
    }
  }
  void Protect(int protection) {
    for (const auto& [memory, bytes] : device_memory_) mprotect(memory, bytes, protection);
  }

  std::mutex mu_;
  HostGpuSettings settings_;
  gpu::DeviceInfo info_;
  std::map<void*, size_t> device_memory_;  // bytes
  std::array<std::deque<Task>, 2> queues_;
  Answer late_;  // what a task has met
  gpu::Cublas blas_;
};

}  // namespace

std::unique_ptr<gpu::MathDevice> MakeHostMathDevice(const HostGpuSettings& settings) {
  return std::make_unique<HostMathDevice>(settings);
}

}  // namespace lockstep
