#include "allreduce/host/memory.h"

#include <fstream>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace lockstep {
namespace {

// Linux promises more than it has and kills later, so its own estimate is asked first. Unknown: no
// bound.
int64_t AvailableBytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  int64_t kib = 0;
  std::string unit;
  while (meminfo >> name >> kib) {
    std::getline(meminfo, unit);
    if (name == "MemAvailable:") return kib * 1024;
  }
  return std::numeric_limits<int64_t>::max();
}

}  // namespace

absl::StatusOr<AlignedMemory> AlignedMemory::Make(int64_t bytes) {
  CHECK_GE(bytes, 0);
  const int64_t available = AvailableBytes();
  std::byte* memory = nullptr;
  if (bytes <= available && bytes <= std::numeric_limits<int64_t>::max() - kAlignmentBytes) {
    const int64_t blocks = bytes / kAlignmentBytes + 1;  // none at all would be no address
    memory = static_cast<std::byte*>(std::aligned_alloc(
        static_cast<size_t>(kAlignmentBytes), static_cast<size_t>(blocks * kAlignmentBytes)));
  }
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("needed ", bytes, " bytes of memory, available ", available));
  }
  return AlignedMemory(memory, static_cast<size_t>(bytes));
}

}  // namespace lockstep
