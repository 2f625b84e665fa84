// ShardCopy behind the head: what its predecessor sends is done here too.
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/numeric/convert.h"
#include "base/status.h"
#include "ps_server/core/replication.h"

namespace lockstep {
namespace {

using Kind = Replicate::Kind;

// Values as they travelled from the worker: widened they are the same again.
std::vector<std::byte> WireBytes(const std::vector<float>& values, Dtype wire) {
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(SizeOf(wire)));
  Convert(Dtype::kF32, values.data(), wire, bytes.data(), static_cast<int64_t>(values.size()));
  return bytes;
}

}  // namespace

absl::Status ShardCopy::CheckPredecessor(int64_t epoch) const {
  if (epoch == place_.epoch && place_.predecessor.has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(Name(), ": a copy of epoch ", epoch, " speaks as its predecessor; ",
                   place_.predecessor.has_value() ? "the epoch has passed or is yet to come"
                                                  : "it is the head and has none"));
}

absl::Status ShardCopy::On(const StateEvent& event, int64_t now_ns, CopyOutput* /*output*/) {
  RETURN_IF_ERROR(CheckPredecessor(event.epoch));
  if (has_state() && event.state.version < version()) {
    return absl::FailedPreconditionError(
        absl::StrCat(Name(), " has version ", version(), ", its predecessor sends the state of ",
                     event.state.version, ": a copy nearer to the head can't have less"));
  }
  ASSIGN_OR_RETURN(Shard restored, Shard::Restore(options_, event.state));
  ShardOutput regrouped = restored.Handle(RegroupEvent{present_}, now_ns);
  if (!regrouped.refusals.empty()) return regrouped.refusals.front().status;
  shard_ = std::move(restored);
  shard_.SetSums(place_.successor.has_value());
  staged_.assign(staged_.size(), {});
  incarnations_.assign(incarnations_.size(), -1);
  sequence_ = -1;
  // Its own successor gets a state too, whatever it has, if its stream stands already.
  if (link_.begun) successor_ = SuccessorEvent{};
  link_.begun = false;
  if (!Waits()) link_.stage = Stage::kOut;
  return absl::OkStatus();
}

absl::Status ShardCopy::CheckOrder(const Replicate& message) const {
  const bool begins =
      message.kind == Kind::kBegin ||
      (message.sequence == 0 && (message.kind == Kind::kPush || message.kind == Kind::kAttach ||
                                 message.kind == Kind::kRead));
  const int64_t expected = sequence_ + (message.kind == Kind::kMember ? 0 : 1);
  if (!begins && (sequence_ < 0 || message.sequence != expected)) {
    return absl::DataLossError(absl::StrCat(Name(), ": message ", message.sequence,
                                            " of its predecessor, expected ", expected,
                                            sequence_ < 0 ? " (nothing has begun)" : ""));
  }
  const int64_t follows = message.version - (message.kind == Kind::kUpdate ? 1 : 0);
  if (!shard_.initialized() || follows != version()) {
    return absl::FailedPreconditionError(
        absl::StrCat(Name(), ": message ", message.sequence, " of its predecessor follows version ",
                     follows, ", this copy has ", shard_.initialized() ? version() : -1));
  }
  const bool mark = message.kind == Kind::kBegin || message.kind == Kind::kMember;
  const bool values = message.kind == Kind::kUpdate || message.kind == Kind::kPush;
  const bool whole = message.payload != nullptr &&
                     static_cast<int64_t>(message.payload->size()) == options_.range.count;
  const bool one = message.pushes.size() == 1 || message.kind == Kind::kUpdate;
  if ((mark || (one && !message.pushes.empty())) && (!values || whole)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      Name(), ": message ", message.sequence, " of its predecessor has ", message.pushes.size(),
      " identities and ", message.payload == nullptr ? 0 : message.payload->size(),
      " values; the shard has ", options_.range.count));
}

absl::Status ShardCopy::On(const ReplicateEvent& event, int64_t now_ns, CopyOutput* output) {
  const Replicate& message = event.message;
  RETURN_IF_ERROR(CheckPredecessor(event.epoch));
  // It came twice: what it says is done.
  if (sequence_ >= message.sequence && message.sequence > 0 && message.kind < Kind::kBegin) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(CheckOrder(message));
  RETURN_IF_ERROR(Annotate(Follow(message, now_ns, output), Name()));
  if (message.kind == Kind::kBegin) {
    sequence_ = message.sequence;
    // The stream that comes in was opened anew. Whoever is behind has all that this copy had; what
    // has just been staged goes there in the same way.
    if (link_.begun) successor_ = SuccessorEvent{true, version(), marks()};
    link_.begun = false;
    BeginLink(output);
  } else if (message.kind == Kind::kMember) {
    member_ = true;
    AdmitSuccessor(output);
  } else if (message.sequence > 0) {
    sequence_ = message.sequence;
    Send(message, output);
  }
  Confirm(/*asked=*/message.kind == Kind::kBegin || message.kind == Kind::kMember, output);
  return absl::OkStatus();
}

absl::Status ShardCopy::Follow(const Replicate& message, int64_t now_ns, CopyOutput* output) {
  if (message.kind == Kind::kBegin || message.kind == Kind::kMember) return absl::OkStatus();
  const UpdateId& id = message.pushes.front();
  switch (message.kind) {
    case Kind::kUpdate: {
      Crash(CrashPoint::kReceivedNotApplied, id.step);
      ASSIGN_OR_RETURN(ShardUpdate update,
                       shard_.ApplySum(message.pushes, message.base, *message.payload, now_ns));
      NoteUpdate(std::move(update), output);
      return absl::OkStatus();
    }
    case Kind::kPush:
      return FollowPush(message, now_ns, output);
    case Kind::kDrop:
      RETURN_IF_ERROR(shard_.ApplyDrop(id));
      output->dropped = id;
      return absl::OkStatus();
    case Kind::kAttach:
      RETURN_IF_ERROR(FollowEvent(AttachEvent{id.worker, id.incarnation}, now_ns, output));
      if (id.incarnation > incarnations_[static_cast<size_t>(id.worker)]) {
        staged_[static_cast<size_t>(id.worker)] = {};
      }
      incarnations_[static_cast<size_t>(id.worker)] = id.incarnation;
      return absl::OkStatus();
    case Kind::kRead:  // what the shard would answer is the head's to say
      return FollowEvent(PullEvent{id}, now_ns, output);
    case Kind::kBegin:
    case Kind::kMember:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status ShardCopy::FollowPush(const Replicate& message, int64_t now_ns, CopyOutput* output) {
  const UpdateId& id = message.pushes.front();
  const Dtype wire = options_.rules.wire_dtype;
  std::shared_ptr<const void> owner = message.payload;
  Bytes bytes = std::as_bytes(std::span(*message.payload));
  if (wire != Dtype::kF32) {
    const auto narrow = std::make_shared<std::vector<std::byte>>(WireBytes(*message.payload, wire));
    bytes = *narrow;
    owner = narrow;
  }
  const ShardChunk chunk = {0, options_.range.count, {&bytes, 1}, owner};
  ShardOutput shard = shard_.Handle(PushEvent{id, chunk, message.base}, now_ns);
  if (!shard.refusals.empty()) return shard.refusals.front().status;
  if (shard.dropped.has_value()) {
    return absl::InternalError(absl::StrCat("the push of step ", id.step, " of worker ", id.worker,
                                            " is dropped here and was not by the head"));
  }
  Crash(CrashPoint::kReceivedNotApplied, id.step);
  staged_[static_cast<size_t>(id.worker)] = message;
  if (shard.update.has_value()) NoteUpdate(std::move(shard.update), output);
  return absl::OkStatus();
}

absl::Status ShardCopy::FollowEvent(const ShardEvent& event, int64_t now_ns, CopyOutput* output) {
  ShardOutput shard = shard_.Handle(event, now_ns);
  if (!shard.refusals.empty()) return shard.refusals.front().status;
  if (shard.update.has_value()) NoteUpdate(std::move(shard.update), output);
  return absl::OkStatus();
}

}  // namespace lockstep
