// ShardCopy at the head of its chain: workers' events, and what follows from them.
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ps_server/core/replication.h"

namespace lockstep {
namespace {

using Kind = Replicate::Kind;

}  // namespace

absl::Status ShardCopy::On(const ShardEvent& event, int64_t now_ns, CopyOutput* output) {
  if (!place_.head) {
    // Time may pass anywhere; a worker that came here knows another chain.
    if (!std::holds_alternative<TickEvent>(event)) {
      return absl::FailedPreconditionError(
          absl::StrCat(Name(), " is not the head of its chain: workers speak to that"));
    }
    return absl::OkStatus();
  }
  const bool was_initialized = shard_.initialized();
  const auto* push = std::get_if<PushEvent>(&event);
  if (push != nullptr) BeforePush(*push);
  ShardOutput shard = shard_.Handle(event, now_ns);
  if (push != nullptr && shard.refusals.empty()) AfterPush(*push);
  Lead(event, was_initialized, &shard, output);
  output->refusals = std::move(shard.refusals);
  Hold(&shard.replies);
  Confirm(/*asked=*/false, output);
  return absl::OkStatus();
}

void ShardCopy::BeforePush(const PushEvent& event) {
  const UpdateId& id = event.id;
  if (id.worker < 0 || id.worker >= options_.world_size) return;
  Arrival& arrival = arrivals_[static_cast<size_t>(id.worker)];
  if (id.step == arrival.step || id.step != shard_.last_step(id.worker) + 1) return;
  arrival = {.step = id.step, .elements = 0};
  Crash(CrashPoint::kBeforeReceive, id.step);
}

void ShardCopy::AfterPush(const PushEvent& event) {
  Arrival& arrival = arrivals_[static_cast<size_t>(event.id.worker)];
  if (event.id.step != arrival.step) return;
  const int64_t half = (options_.range.count + 1) / 2;
  const bool before = arrival.elements < half;
  arrival.elements += CountBytes(event.chunk.pieces) / SizeOf(options_.rules.wire_dtype);
  if (before && arrival.elements >= half) Crash(CrashPoint::kHalfReceived, event.id.step);
}

// Numbers what has happened, for the copies behind.
void ShardCopy::Lead(const ShardEvent& event, bool was_initialized, ShardOutput* shard,
                     CopyOutput* output) {
  if (const auto* attach = std::get_if<AttachEvent>(&event); attach && shard->refusals.empty()) {
    const auto worker = static_cast<size_t>(attach->worker);
    if (attach->incarnation > incarnations_[worker]) staged_[worker] = {};
    incarnations_[worker] = attach->incarnation;
    // What was held for its old stream would answer a question that the new one has not asked.
    std::erase_if(held_, [&](const Held& h) { return h.reply.worker == attach->worker; });
    Emit(About(Kind::kAttach, version(), {attach->worker, attach->incarnation, 0, options_.shard}),
         output);
  }
  if (!was_initialized && shard_.initialized()) BeginLink(output);
  if (shard->staged.has_value()) Crash(CrashPoint::kReceivedNotApplied, shard->staged->step);
  const int64_t before = version() - (shard->update.has_value() ? 1 : 0);
  if (const auto* pull = std::get_if<PullEvent>(&event); pull && shard->refusals.empty()) {
    if (shard_.redoes(pull->id.worker)) Emit(About(Kind::kRead, before, pull->id), output);
  }
  if (shard->dropped.has_value()) {
    output->dropped = shard->dropped;
    Emit(About(Kind::kDrop, before, *shard->dropped), output);
  } else if (shard->staged.has_value() && !place_.aggregated) {
    Replicate push = About(Kind::kPush, before, *shard->staged);
    push.base = std::get<PushEvent>(event).base;
    push.payload = std::move(shard->push);
    staged_[static_cast<size_t>(shard->staged->worker)] = push;
    Emit(std::move(push), output);
  }
  const bool folded_behind = !place_.aggregated && !shard->dropped.has_value();
  if (shard->update.has_value()) {
    if (!folded_behind) {
      Emit({.kind = Kind::kUpdate,
            .version = version(),
            .pushes = shard->update->ids,
            .base = shard_.round(),
            .payload = std::move(shard->sum)},
           output);
    }
    NoteUpdate(std::move(shard->update), output);
  }
  if (!AppliesAlone(options_.rules.mode)) return;
  for (const ShardReply& reply : shard->replies) {
    const auto worker = static_cast<size_t>(reply.worker);
    Emit(About(Kind::kRead, version(),
               {reply.worker, incarnations_[worker], reply.step, options_.shard}),
         output);
  }
}

void ShardCopy::Emit(Replicate message, CopyOutput* output) {
  message.sequence = ++sequence_;
  Send(std::move(message), output);
}

void ShardCopy::Send(Replicate message, CopyOutput* output) {
  if (!link_.begun) return;
  link_.sent = message.sequence;
  output->to_successor.push_back(std::move(message));
}

// A worker is owed one reply: a newer one takes the place of an older one.
void ShardCopy::Hold(std::vector<ShardReply>* replies) {
  for (ShardReply& reply : *replies) {
    std::erase_if(held_, [&](const Held& held) { return held.reply.worker == reply.worker; });
    held_.push_back({sequence_, std::move(reply)});
  }
}

void ShardCopy::NoteUpdate(std::optional<ShardUpdate> update, CopyOutput* output) {
  for (const UpdateId& id : update->ids) staged_[static_cast<size_t>(id.worker)] = {};
  Crash(CrashPoint::kAppliedNotReplicated, update->step);
  output->update = std::move(update);
}

}  // namespace lockstep
