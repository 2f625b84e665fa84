#include "worker/gpu/gpu_memory.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lockstep {

using gpu::Queue;

class GpuMemory::EventDelivery final : public Delivery {
 public:
  explicit EventDelivery(GpuMemory* memory)
      : memory_(*memory), computed_(memory->MakeEvent()), arrived_(memory->MakeEvent()) {}
  ~EventDelivery() override {
    for (void* const event : {computed_, arrived_}) {
      if (event != nullptr) memory_.device_->DestroyEvent(event);
    }
  }
  EventDelivery(const EventDelivery&) = delete;
  EventDelivery& operator=(const EventDelivery&) = delete;

  void Start(std::byte* staged, const std::byte* operands, int64_t bytes) override {
    gpu::MathDevice& device = *memory_.device_;
    memory_.Do([&] { return device.Record(Queue::kCompute, computed_); });
    memory_.Do([&] { return device.WaitFor(Queue::kCopy, computed_); });
    memory_.Do([&] { return device.Copy(Queue::kCopy, staged, operands, bytes); });
    memory_.Do([&] { return device.Record(Queue::kCopy, arrived_); });
  }
  absl::Status Await() override { return memory_.AwaitEvent(arrived_); }

 private:
  GpuMemory& memory_;
  void* const computed_;
  void* const arrived_;
};

GpuMemory::GpuMemory(std::unique_ptr<gpu::MathDevice> device, GpuMemoryOptions options,
                     const Clock& clock)
    : device_(std::move(device)),
      options_(std::move(options)),
      clock_(clock),
      through_(MakeEvent()) {}

GpuMemory::~GpuMemory() {
  if (through_ != nullptr) device_->DestroyEvent(through_);
}

template <typename Call>
bool GpuMemory::Do(const Call& call) {
  if (!status().ok()) return false;
  const gpu::Answer answer = call();
  if (answer.ok()) return true;
  MutexLock lock(&mu_);
  failure_.Update(absl::InternalError(absl::StrCat(options_.name, ": ", answer.message)));
  return false;
}

absl::Status GpuMemory::status() const {
  MutexLock lock(&mu_);
  return failure_;
}

std::byte* GpuMemory::TakeOperands(int64_t bytes) {
  std::byte* made = nullptr;
  Do([&] { return device_->Allocate(bytes, &made); });
  return OrHost(made, bytes);
}

void GpuMemory::ReturnOperands(std::byte* memory) {
  if (!ReturnedToHost(memory)) device_->Free(memory);
}

std::byte* GpuMemory::TakeStaged(int64_t bytes) {
  std::byte* made = nullptr;
  Do([&] { return device_->AllocateHost(bytes, &made); });
  return OrHost(made, bytes);
}

void GpuMemory::ReturnStaged(std::byte* memory) {
  if (!ReturnedToHost(memory)) device_->FreeHost(memory);
}

std::byte* GpuMemory::OrHost(std::byte* made, int64_t bytes) {
  if (made != nullptr || bytes == 0) return made;
  return *of_host_.insert(HostMemory()->TakeOperands(bytes)).first;
}

bool GpuMemory::ReturnedToHost(std::byte* memory) {
  if (of_host_.erase(memory) == 0) return false;
  HostMemory()->ReturnOperands(memory);
  return true;
}

void GpuMemory::Copy(void* target, const void* source, int64_t bytes) {
  Do([&] { return device_->Copy(Queue::kCompute, target, source, bytes); });
}

void GpuMemory::Multiply(const gpu::MatrixProduct& product) {
  Do([&] { return device_->Multiply(product); });
}

void GpuMemory::Run(const gpu::Work& work) {
  Do([&] { return device_->Run(work); });
}

std::unique_ptr<Delivery> GpuMemory::MakeDelivery() {
  return std::make_unique<EventDelivery>(this);
}

void* GpuMemory::MakeEvent() {
  void* made = nullptr;
  Do([&] { return device_->MakeEvent(&made); });
  return made;
}

absl::Status GpuMemory::Await() {
  Do([&] { return device_->Record(Queue::kCompute, through_); });
  return AwaitEvent(through_);
}

void GpuMemory::Stop() {
  const absl::Status reason =
      options_.abort == nullptr ? absl::OkStatus() : options_.abort->status();
  if (reason.ok()) return;
  MutexLock lock(&mu_);
  failure_.Update(Annotate(reason, absl::StrCat(options_.name, ", while waiting for it")));
}

// The device is asked again and again: its own waiting has no deadline.
absl::Status GpuMemory::AwaitEvent(void* event) {
  const int64_t start_ns = clock_.NowNs();
  bool passed = false;
  while (Do([&] { return device_->Query(event, &passed); }) && !passed) {
    if ((clock_.NowNs() - start_ns) / kNsPerMs >= options_.timeout_ms) {
      Do([&] {
        return gpu::Answer{gpu::Refused::kDevice,
                           absl::StrCat("not through after ", options_.timeout_ms,
                                        " ms; if a step is that long, raise "
                                        "limits.device_timeout_ms")};
      });
    }
    Stop();
    std::this_thread::yield();
  }
  return status();
}

}  // namespace lockstep
