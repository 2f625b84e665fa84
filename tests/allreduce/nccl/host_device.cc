#include "tests/allreduce/nccl/host_device.h"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/allreduce/host_queue.h"
#include "tests/allreduce/nccl/host_stream.h"

namespace lockstep {
namespace {

class Queue final : public HostStream {
 public:
  Queue() {
    enqueue = [](HostStream* stream, void (*run)(void*), void* context) {
      static_cast<Queue*>(stream)->Add([run, context] { run(context); });
    };
  }
  void Add(std::function<void()> work) { queue_.Add(std::move(work)); }
  bool Idle() { return queue_.Idle(); }

 private:
  HostQueue queue_;
};

class HostDevice final : public nccl::Device {
 public:
  absl::StatusOr<nccl::DeviceState> Look() override {
    const int visible = TheHostGpus().visible;
    if (visible == 0) return absl::FailedPreconditionError("nccl: no CUDA device");
    nccl::DeviceState state{.driver = 13000, .runtime = 13000, .machine = "here", .gpus = {}};
    for (int i = 0; i < visible; ++i) state.gpus.push_back(absl::StrCat("0000:0", i, ":00.0"));
    return state;
  }
  absl::Status Open(int /*index*/) override {
    queue_ = std::make_unique<Queue>();
    return absl::OkStatus();
  }
  absl::StatusOr<nccl::StagingMemory> Reserve(int64_t bytes) override {
    if (static_cast<size_t>(bytes) > host_.size()) {
      host_.assign(static_cast<size_t>(bytes), std::byte{0xee});
      device_.assign(static_cast<size_t>(bytes), std::byte{0xdd});
    }
    return nccl::StagingMemory{.host = host_.data(), .device = device_.data()};
  }
  absl::Status CopyIn(int64_t first, int64_t bytes) override {
    queue_->Add([this, first, bytes] {
      std::memcpy(device_.data() + first, host_.data() + first, static_cast<size_t>(bytes));
    });
    return absl::OkStatus();
  }
  absl::Status CopyOut(int64_t first, int64_t bytes) override {
    queue_->Add([this, first, bytes] {
      std::memcpy(host_.data() + first, device_.data() + first, static_cast<size_t>(bytes));
    });
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Idle() override { return queue_ == nullptr || queue_->Idle(); }
  absl::StatusOr<void*> Stream() override {
    return static_cast<void*>(static_cast<HostStream*>(queue_.get()));
  }

 private:
  std::vector<std::byte> host_;
  std::vector<std::byte> device_;
  std::unique_ptr<Queue> queue_;  // uses the memory, so it ends first
};

}  // namespace

HostGpus& TheHostGpus() {
  static HostGpus gpus;
  static const bool read = [] {  // where real processes load this, their environment says
    const char* const visible = std::getenv("LOCKSTEP_TEST_GPUS");
    if (visible != nullptr) gpus.visible = std::atoi(visible);
    return true;
  }();
  static_cast<void>(read);
  return gpus;
}

std::unique_ptr<nccl::Device> MakeHostDevice() { return std::make_unique<HostDevice>(); }

}  // namespace lockstep
