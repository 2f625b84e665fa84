#include "allreduce/gpu/gang.h"

#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lockstep::gpu {
namespace {

// Kernels that are asked to stop look at it within microseconds.
constexpr std::chrono::milliseconds kEnd(2000);

}  // namespace

absl::Status ToStatus(const Answer& answer) {
  const std::string text = absl::StrCat("cuda: ", answer.message);
  switch (answer.why) {
    case Refused::kNot:
      return absl::OkStatus();
    case Refused::kInvalid:
      return absl::InvalidArgumentError(text);
    case Refused::kRankFailed:
      return absl::DeadlineExceededError(text);
    case Refused::kDevice:
      return absl::UnavailableError(text);
    default:
      return absl::FailedPreconditionError(text);
  }
}

void Gang::Open(absl::StatusOr<GangKernels> kernels) {
  const std::lock_guard lock(mutex_);
  open_ = true;
  failure_ = kernels.status();
  if (!kernels.ok()) return;
  kernels_ = *std::move(kernels);
  data_ = kernels_.staging->arenas();
}

std::optional<absl::Status> Gang::opened() {
  const std::lock_guard lock(mutex_);
  return open_ ? std::optional(failure_) : std::nullopt;
}

Gang::~Gang() {
  if (in_flight_ && !kernels_.groups[group_]->End()) KeepMemory();
}

void Gang::KeepMemory() {
  // To the end of the process, and where a leak checker sees that it was meant.
  static std::mutex keeping;
  static auto* const kept = new std::vector<GangKernels>;
  const std::lock_guard keep(keeping);
  kept->push_back(std::move(kernels_));
}

void Gang::NobodyUsesMemory() {
  const std::lock_guard lock(mutex_);
  kernels_.staging->NobodyUsesIt();
  for (const auto& group : kernels_.groups) group->NobodyUsesMemory();
}

absl::StatusOr<int64_t> Gang::Arrive(const GangCall& call) {
  const std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(failure_);
  data_[static_cast<size_t>(call.rank)] = call.data;
  const int64_t own = launched_ + 1;
  if (++arrived_ == members_) Launch(call);
  return own;
}

void Gang::Launch(const GangCall& call) {
  arrived_ = 0;
  ++launched_;
  group_ = call.group;
  in_flight_ = true;
  const std::vector<const std::byte*> inputs(data_.begin(), data_.end());
  failure_ = ToStatus(kernels_.groups[group_]->Launch(call.spec, inputs, data_, call.timeout_ms));
}

std::optional<absl::Status> Gang::Look(int64_t call) {
  const std::lock_guard lock(mutex_);
  if (in_flight_) {
    bool through = false;
    const Answer answer = kernels_.groups[group_]->Poll(&through);
    if (through) {
      in_flight_ = false;
      diagnosis_ = answer.message;
      if (failure_.ok()) failure_ = ToStatus(answer);
      if (failure_.ok()) finished_ = launched_;
    }
  }
  if (finished_ >= call) return absl::OkStatus();
  if (!failure_.ok() && !in_flight_) return failure_;
  return std::nullopt;
}

absl::Status Gang::GiveUp(int64_t call, const absl::Status& why) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = why;
    if (in_flight_) kernels_.groups[group_]->Stop();
  }
  const auto end = std::chrono::steady_clock::now() + kEnd;
  while (!Look(call).has_value()) {
    if (std::chrono::steady_clock::now() > end) {
      return Annotate(why,
                      "the kernel does not end, though it was asked to: the GPU may need a "
                      "reset");
    }
    std::this_thread::yield();
  }
  const std::lock_guard lock(mutex_);
  return diagnosis_.empty() ? why : Annotate(why, absl::StrCat("cuda: ", diagnosis_));
}

absl::Status Gang::Run(const GangCall& call, const Pause& pause) {
  ASSIGN_OR_RETURN(const int64_t own, Arrive(call));
  while (true) {
    const std::optional<absl::Status> result = Look(own);
    if (result.has_value()) return *result;
    const absl::Status status = pause();
    if (!status.ok()) return GiveUp(own, status);
  }
}

}  // namespace lockstep::gpu
