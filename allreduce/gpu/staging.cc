#include "allreduce/gpu/staging.h"

#include <algorithm>
#include <cstring>

#include "allreduce/gpu/gang.h"
#include "base/status.h"

namespace lockstep::gpu {
namespace {

constexpr int64_t kWidenedBytes = 4;

int64_t ScaleOf(const Job& job) { return job.widened ? kWidenedBytes : 1; }

// The part of `range` that is in this portion, and where it is staged.
struct Overlap {
  int64_t first = 0;
  int64_t bytes = 0;  // not above 0: none
  int64_t staged = 0;
};
Overlap OverlapOf(const Job& job, const Portion& portion, const Range& range) {
  const int64_t first = std::max(portion.bytes.first, range.first);
  return {first, std::min(portion.bytes.end, range.end) - first,
          (first - portion.bytes.first) * ScaleOf(job)};
}

}  // namespace

Portion PortionOf(const Job& job, int64_t first, int64_t room) {
  const int64_t size = SizeOf(job.dtype);
  Portion portion;
  portion.bytes = {first, std::min(job.bytes, first + room / ScaleOf(job))};
  const int64_t bytes = (portion.bytes.end - first) * ScaleOf(job);
  portion.staged_bytes = (bytes + size - 1) / size * size;
  return portion;
}

absl::StatusOr<std::unique_ptr<Staging>> Staging::Make(Runtime* runtime, int device,
                                                       int64_t bytes) {
  std::unique_ptr<Staging> staging(new Staging(runtime, device));
  RETURN_IF_ERROR(ToStatus(runtime->MakeStream(device, &staging->stream_)));
  RETURN_IF_ERROR(ToStatus(runtime->AllocateHost(bytes, &staging->host_)));
  return staging;
}

Staging::~Staging() {
  if (stream_ != nullptr) runtime_.DestroyStream(device_, stream_);
  if (host_ != nullptr) runtime_.FreeHost(host_);
}

absl::Status Staging::BringIn(const Job& job, const Portion& portion, std::byte* staging) {
  const Overlap own = OverlapOf(job, portion, job.in);
  const bool all = own.bytes * ScaleOf(job) == portion.staged_bytes;
  if (job.on_device) {
    if (!all) {
      RETURN_IF_ERROR(ToStatus(runtime_.Zero(device_, stream_, staging, portion.staged_bytes)));
    }
    if (own.bytes <= 0) return absl::OkStatus();
    return Copy(staging + own.staged, job.data + own.first, own.bytes);
  }
  if (!all) std::memset(host_, 0, static_cast<size_t>(portion.staged_bytes));
  if (own.bytes > 0 && job.widened) {
    for (int64_t i = 0; i < own.bytes; ++i) {
      const auto value = static_cast<int32_t>(job.data[own.first + i]);
      std::memcpy(host_ + own.staged + i * kWidenedBytes, &value, sizeof(value));
    }
  } else if (own.bytes > 0) {
    std::memcpy(host_ + own.staged, job.data + own.first, static_cast<size_t>(own.bytes));
  }
  return Copy(staging, host_, portion.staged_bytes);
}

absl::Status Staging::TakeOut(const Job& job, const Portion& portion, std::byte* staging) {
  const Overlap own = OverlapOf(job, portion, job.out);
  if (own.bytes <= 0) return absl::OkStatus();
  if (job.on_device) return Copy(job.data + own.first, staging + own.staged, own.bytes);
  return Copy(host_, staging, portion.staged_bytes);
}

void Staging::Deliver(const Job& job, const Portion& portion) {
  const Overlap own = OverlapOf(job, portion, job.out);
  if (job.on_device || own.bytes <= 0) return;
  if (!job.widened) {
    std::memcpy(job.data + own.first, host_ + own.staged, static_cast<size_t>(own.bytes));
    return;
  }
  for (int64_t i = 0; i < own.bytes; ++i) {  // the low byte of a sum that wraps
    int32_t value = 0;
    std::memcpy(&value, host_ + own.staged + i * kWidenedBytes, sizeof(value));
    job.data[own.first + i] = static_cast<std::byte>(static_cast<uint32_t>(value) & 0xff);
  }
}

absl::Status Staging::Copy(void* target, const void* source, int64_t bytes) {
  return ToStatus(runtime_.Copy(device_, stream_, target, source, bytes));
}

absl::StatusOr<bool> Staging::Idle() {
  bool idle = false;
  RETURN_IF_ERROR(ToStatus(runtime_.Query(device_, stream_, &idle)));
  return idle;
}

}  // namespace lockstep::gpu
