#include "ps_server/core/replication.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/fingerprint.h"
#include "base/status.h"

namespace lockstep {
namespace {

using Kind = Replicate::Kind;

absl::Status CheckPlace(const ChainPlace& place) {
  if (place.head != place.predecessor.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("epoch ", place.epoch, ": the head of a chain has no predecessor, and only it"));
}

}  // namespace

absl::StatusOr<ShardCopy> ShardCopy::Create(const ShardOptions& options, const ChainPlace& place) {
  RETURN_IF_ERROR(CheckPlace(place));
  ShardOptions own = options;
  own.whole_pushes = !place.aggregated;
  ASSIGN_OR_RETURN(Shard shard, Shard::Create(own));
  return ShardCopy(own, std::move(shard), place);
}

absl::StatusOr<ShardCopy> ShardCopy::Restore(const ShardOptions& options, const ChainPlace& place,
                                             const ShardState& state) {
  RETURN_IF_ERROR(CheckPlace(place));
  ShardOptions own = options;
  own.whole_pushes = !place.aggregated;
  ASSIGN_OR_RETURN(Shard shard, Shard::Restore(own, state));
  ShardCopy copy(own, std::move(shard), place);
  copy.member_ = true;  // every copy of the chain begins with it
  return copy;
}

ShardCopy::ShardCopy(const ShardOptions& options, Shard shard, const ChainPlace& place)
    : options_(options),
      shard_(std::move(shard)),
      present_(static_cast<size_t>(options.world_size), true) {
  Enter(place);
}

// All that is an epoch's own begins anew.
void ShardCopy::Enter(const ChainPlace& place) {
  const auto workers = static_cast<size_t>(options_.world_size);
  place_ = place;
  shard_.SetSums(place_.successor.has_value());
  // The coordinator's word: what this copy heard in the old epoch may have come after it.
  member_ = place.head || (member_ && !place.joins);
  incarnations_.assign(workers, -1);
  staged_.assign(workers, {});
  arrivals_.assign(workers, {});
  held_.clear();
  successor_.reset();
  link_ = {.stage = place.successor_joins ? Stage::kOut : Stage::kIn};
  sequence_ = place.head ? 0 : -1;
  confirmed_ = -1;
}

uint64_t ShardCopy::marks() const {
  if (!shard_.initialized()) return 0;
  std::vector<int64_t> marks = {shard_.round()};
  for (const WorkerMark& mark : shard_.worker_marks()) {
    marks.insert(marks.end(), {mark.last_step, mark.dropped, mark.rejected ? 1 : 0});
  }
  for (const StalenessMark& mark : shard_.staleness_marks()) {
    marks.insert(marks.end(), {mark.applied, mark.others_at_read, mark.slowest_at_read});
  }
  return Fingerprint64(std::as_bytes(std::span(marks)));
}

CopyOutput ShardCopy::Handle(const CopyEvent& event, int64_t now_ns) {
  CopyOutput output;
  output.fault = std::visit([&](const auto& e) { return On(e, now_ns, &output); }, event);
  return output;
}

absl::Status ShardCopy::On(const EpochEvent& event, int64_t now_ns, CopyOutput* output) {
  RETURN_IF_ERROR(CheckPlace(event.place));
  if (event.place.epoch <= place_.epoch) {
    return absl::FailedPreconditionError(
        absl::StrCat(Name(), ": epoch ", event.place.epoch, " is not later than ", place_.epoch));
  }
  if (event.place.head && shard_.initialized() && !member_) {
    return absl::FailedPreconditionError(
        absl::StrCat(Name(), ": made the head of epoch ", event.place.epoch,
                     ", but it has not caught up and lacks what workers were told"));
  }
  Crash(CrashPoint::kRestoring, version());
  ShardOutput regrouped = shard_.Handle(RegroupEvent{event.present}, now_ns);
  if (!regrouped.refusals.empty()) return regrouped.refusals.front().status;
  present_ = event.present;
  Enter(event.place);
  Confirm(/*asked=*/false, output);
  return absl::OkStatus();
}

absl::Status ShardCopy::On(const SuccessorEvent& event, int64_t /*now_ns*/, CopyOutput* output) {
  if (!place_.successor.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(Name(), " is the tail: it has no successor"));
  }
  successor_ = event;
  link_.begun = false;
  // Once kMember was sent it may be a member, whatever came of the stream: it is waited for.
  if (!Waits()) link_.stage = Stage::kOut;
  BeginLink(output);
  return absl::OkStatus();
}

// Sends what a successor lacks, once its stream stands and there is something to follow from.
void ShardCopy::BeginLink(CopyOutput* output) {
  if (!successor_.has_value() || link_.begun || sequence_ < 0 || !shard_.initialized()) return;
  const bool equal =
      successor_->has_state && successor_->version == version() && successor_->marks == marks();
  if (!equal) output->state_to_successor = std::make_shared<const ShardState>(shard_.Save());
  for (size_t r = 0; r < incarnations_.size(); ++r) {
    const UpdateId id = {static_cast<int32_t>(r), incarnations_[r], 0, options_.shard};
    if (incarnations_[r] < 0) continue;
    output->to_successor.push_back(About(Kind::kAttach, version(), id));
    if (!shard_.redoes(id.worker)) continue;
    output->to_successor.push_back(About(Kind::kRead, version(), id));
    output->to_successor.back().pushes.front().step = shard_.last_step(id.worker) - 1;
  }
  for (const Replicate& push : staged_) {
    if (push.payload == nullptr) continue;
    output->to_successor.push_back(push);
    output->to_successor.back().sequence = 0;
    output->to_successor.back().version = version();  // K_OF_N: late pushes may have raised it
  }
  Replicate mark = {.kind = Kind::kBegin, .version = version(), .sequence = sequence_};
  output->to_successor.push_back(mark);
  mark.kind = Kind::kMember;
  if (Waits()) output->to_successor.push_back(mark);
  if (link_.stage == Stage::kOut) link_.stage = Stage::kSentState;
  link_.begun = true;
  link_.sent = sequence_;
  successor_.reset();
}

absl::Status ShardCopy::On(const ReplicatedEvent& event, int64_t /*now_ns*/, CopyOutput* output) {
  if (event.epoch != place_.epoch || event.sequence < 0 || event.sequence > link_.sent) {
    return absl::FailedPreconditionError(
        absl::StrCat(Name(), ": its successor says that it has message ", event.sequence,
                     " of epoch ", event.epoch, "; sent were ", link_.sent));
  }
  if (event.sequence > link_.acknowledged) {
    link_.acknowledged = event.sequence;
    link_.version = std::max(link_.version, event.version);
  }
  if (link_.stage == Stage::kSentState) {
    link_.stage = Stage::kHasState;
    AdmitSuccessor(output);
  } else if (link_.stage == Stage::kSentMember && event.version >= 0) {
    link_.stage = Stage::kIn;
    output->caught_up = true;
  }
  Confirm(/*asked=*/false, output);
  return absl::OkStatus();
}

// Whoever is waited for itself can wait for another: nothing is told to anybody from here on that
// the successor lacks.
void ShardCopy::AdmitSuccessor(CopyOutput* output) {
  if (link_.stage != Stage::kHasState || !member_) return;
  output->to_successor.push_back(
      {.kind = Kind::kMember, .version = version(), .sequence = sequence_});
  link_.stage = Stage::kSentMember;
}

// Says what every copy from here on has, and lets go of the replies that waited for it.
void ShardCopy::Confirm(bool asked, CopyOutput* output) {
  const int64_t reached = Waits() ? std::min(link_.acknowledged, sequence_) : sequence_;
  const bool further = reached > confirmed_;
  if (further) {
    confirmed_ = reached;
    confirmed_version_ = Waits() ? link_.version : version();
  }
  if (place_.predecessor.has_value() && confirmed_ >= 0 && (asked || (further && member_))) {
    const int64_t version = member_ ? confirmed_version_ : -1;
    output->to_predecessor = ReplicatedEvent{place_.epoch, confirmed_, version};
  }
  const auto released = std::stable_partition(
      held_.begin(), held_.end(), [&](const Held& held) { return held.sequence > confirmed_; });
  int64_t step = place_.head || !further ? 0 : version();
  for (auto held = released; held != held_.end(); ++held) {
    step = std::max(step, held->reply.step);
    output->replies.push_back(std::move(held->reply));
  }
  held_.erase(released, held_.end());
  if (step > 0) Crash(CrashPoint::kReplicatedNotAcknowledged, step);
}

void ShardCopy::Crash(CrashPoint point, int64_t step) const {
  if (crash_) crash_(point, step);
}

std::string ShardCopy::Name() const {
  return absl::StrCat("copy of shard ", options_.shard, " in epoch ", place_.epoch);
}

}  // namespace lockstep
