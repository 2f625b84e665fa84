#include "worker/model/memory.h"

#include <cstring>
#include <new>

namespace lockstep {
namespace {

constexpr std::align_val_t kAlignment{64};

class HostDelivery final : public Delivery {
 public:
  void Start(std::byte* staged, const std::byte* operands, int64_t /*bytes*/) override {
    CHECK_EQ(staged, operands);
  }
  absl::Status Await() override { return absl::OkStatus(); }
};

class HostsOwnMemory final : public Memory {
 public:
  bool on_host() const override { return true; }
  std::byte* TakeOperands(int64_t bytes) override {
    CHECK_GE(bytes, 0);
    const auto size = static_cast<size_t>(bytes);
    void* const memory = ::operator new(size, kAlignment);
    std::memset(memory, 0, size);
    return static_cast<std::byte*>(memory);
  }
  void ReturnOperands(std::byte* memory) override { ::operator delete(memory, kAlignment); }
  std::byte* TakeStaged(int64_t /*bytes*/) override { return Never(); }
  void ReturnStaged(std::byte* /*memory*/) override { Never(); }
  void Copy(void* /*target*/, const void* /*source*/, int64_t /*bytes*/) override { Never(); }
  std::unique_ptr<Delivery> MakeDelivery() override { return std::make_unique<HostDelivery>(); }
  absl::Status Await() override { return absl::OkStatus(); }

 private:
  static std::byte* Never() {
    CHECK(false) << "the host's operands are what the host sees";
    return nullptr;
  }
};

}  // namespace

Memory* HostMemory() {
  static HostsOwnMemory memory;
  return &memory;
}

}  // namespace lockstep
