#include "ps_server/service/storage.h"

#include "absl/strings/str_cat.h"
#include "base/limits.h"

namespace lockstep {

Storage::Storage(StorageOptions options, Files* files, const Clock& clock, StorageEvents events,
                 CrashHook crash)
    : options_(std::move(options)),
      files_(files),
      clock_(clock),
      events_(std::move(events)),
      crash_(std::move(crash)),
      thread_([this] { Work(); }) {}

Storage::~Storage() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.join();
}

SnapshotPlace Storage::PlaceOf(int32_t shard, int64_t step) const {
  return {options_.folder, shard, options_.shards, step};
}

void Storage::Save(int64_t step, std::shared_ptr<const ShardState> state) {
  const int32_t shard = state->shard;
  int64_t skipped = -1;
  {
    MutexLock lock(&mu_);
    const auto [place, fresh] = waiting_.try_emplace(shard);
    if (!fresh) skipped = place->second.first;
    place->second = {step, std::move(state)};
  }
  if (skipped < 0 || !events_.failed) return;
  events_.failed(PlaceOf(shard, skipped),
                 absl::AbortedError(absl::StrCat("not begun when step ", step, " came")));
}

absl::StatusOr<std::vector<ShardState>> Storage::Restore(int32_t shard, int64_t step) {
  {
    // What was to be saved is of steps that are made again.
    MutexLock lock(&mu_);
    waiting_.erase(shard);
    const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !writing_; };
    if (!mu_.AwaitFor(idle, options_.timeout_ms)) {
      return absl::DeadlineExceededError(
          absl::StrCat("shard ", shard, ": an earlier snapshot is still being written after ",
                       options_.timeout_ms, " ms"));
    }
  }
  const SnapshotPlace place = PlaceOf(shard, step);
  absl::StatusOr<std::vector<ShardState>> states = ReadSnapshot(place, files_);
  if (states.ok()) RewindSnapshots(place, files_);
  return states;
}

void Storage::Work() {
  for (;;) {
    Waiting next;
    {
      MutexLock lock(&mu_);
      const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        return stopping_ || !waiting_.empty();
      };
      // The lock wakes it; the bound is only there because every wait has one.
      if (!mu_.AwaitFor(due, kDayMs)) continue;
      if (stopping_) return;
      next = std::move(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
      writing_ = true;
    }
    Write(next);
    next.second.reset();
    MutexLock lock(&mu_);
    writing_ = false;
  }
}

void Storage::Write(const Waiting& next) {
  const auto& [step, state] = next;
  const int64_t deadline_ns = clock_.NowNs() + options_.timeout_ms * kNsPerMs;
  const auto go_on = [&]() -> absl::Status {
    if (clock_.NowNs() >= deadline_ns) {
      return absl::DeadlineExceededError(
          absl::StrCat("not written within ", options_.timeout_ms, " ms"));
    }
    MutexLock lock(&mu_);
    return stopping_ ? absl::CancelledError("the server ends") : absl::OkStatus();
  };
  const SnapshotPlace place = PlaceOf(state->shard, step);
  const absl::StatusOr<SavedSnapshot> saved = WriteSnapshot(place, *state, files_, crash_, go_on);
  if (saved.ok()) {
    if (events_.saved) events_.saved(*saved);
    PruneSnapshots(place, files_);
  } else if (events_.failed) {
    events_.failed(place, saved.status());
  }
}

}  // namespace lockstep
