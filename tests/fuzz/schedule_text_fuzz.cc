// Any bytes as a schedule's text: refused with an error, or a schedule that comes back as it was
// when it is written, and that the verifier can judge.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "allreduce/schedule/text.h"
#include "allreduce/schedule/verify.h"
#include "base/check.h"

namespace lockstep {
namespace {

// The verifier's time grows with these; what it must not do shows in small worlds.
constexpr int64_t kCellsMax = 4096;
constexpr size_t kBytesMax = 4096;

void OneInput(std::string_view bytes) {
  const absl::StatusOr<ScheduleText> text = ParseSchedule(bytes);
  if (!text.ok()) {
    CHECK(!text.status().message().empty()) << "an error must say what is wrong";
    return;
  }
  const Schedule& schedule = text->schedule;
  const std::string written = WriteSchedule(schedule, text->goal, text->root);
  const absl::StatusOr<ScheduleText> again = ParseSchedule(written);
  CHECK(again.ok()) << again.status().message() << "\n" << written;
  CHECK(again->schedule.ranks == schedule.ranks) << written;
  CHECK(WriteSchedule(again->schedule, again->goal, again->root) == written) << written;
  const int64_t cells = int64_t{schedule.world_size} * (schedule.chunks + schedule.scratch);
  if (cells <= kCellsMax && bytes.size() <= kBytesMax) Verify(schedule, AllReduceGoal(schedule));
}

}  // namespace
}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lockstep::OneInput({reinterpret_cast<const char*>(data), size});
  return 0;
}
