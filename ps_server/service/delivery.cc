// What a shard's copy does with an event, and where its answers go.
#include <algorithm>
#include <utility>

#include "base/status.h"
#include "ps_server/service/exchange.h"

namespace lockstep {

void Exchange::Drive(Seat* seat, const CopyEvent& event, int64_t stream) {
  const int64_t start_ns = clock_.NowNs();
  const int64_t duplicates = seat->copy->shard().duplicates();
  const bool had_state = seat->copy->has_state();
  const int64_t made = seat->copy->shard().made();
  const CopyOutput output = seat->copy->Handle(event, start_ns);
  const int64_t end_ns = clock_.NowNs();
  counters_.duplicates += std::max<int64_t>(0, seat->copy->shard().duplicates() - duplicates);
  books_.SetDuplicates(counters_.duplicates);
  if (output.update.has_value()) BookUpdate(seat, *output.update, start_ns, end_ns);
  if (seat->copy->shard().made() > made) seat->early_ns += end_ns - start_ns;
  if (output.dropped.has_value()) BookDrop(seat, *output.dropped);
  NoteConfirmed(seat, end_ns);
  const bool changed = output.update.has_value() || had_state != seat->copy->has_state();
  Deliver(seat, output, stream);
  if (changed) CutIfDue(seat);
}

void Exchange::NoteConfirmed(Seat* seat, int64_t now_ns) {
  const int64_t confirmed = seat->copy->confirmed();
  if (!seat->place.successor.has_value()) return;
  if (confirmed >= seat->copy->version()) {
    seat->unconfirmed_since_ns = 0;
  } else if (confirmed > seat->confirmed || seat->unconfirmed_since_ns == 0) {
    seat->unconfirmed_since_ns = now_ns;
  }
  if (std::exchange(seat->confirmed, confirmed) == confirmed) return;
  books_.Replicated(seat->shard, confirmed, now_ns);
}

// Only the head's: its copies apply the same.
void Exchange::BookUpdate(Seat* seat, const ShardUpdate& update, int64_t start_ns, int64_t end_ns) {
  const int64_t early_ns = std::exchange(seat->early_ns, 0);
  if (!seat->place.head) return;
  UpdateServed served;
  served.update = update;
  served.shard = seat->shard;
  served.apply_start_ns = start_ns;
  served.apply_ns = end_ns - start_ns;
  served.early_ns = early_ns;
  served.staged_bytes = update.held_bytes;
  for (const auto& [stream, state] : streams_) served.staged_bytes += state.unsent_bytes;
  std::vector<Books::Identity> pushes;
  for (const UpdateId& id : update.ids) pushes.emplace_back(id.worker, id.step);
  books_.Apply(std::move(served), std::move(pushes));
}

void Exchange::BookDrop(Seat* seat, const UpdateId& push) {
  if (!seat->place.head) return;
  books_.Drop(seat->shard, {push.worker, push.step});
}

void Exchange::Deliver(Seat* seat, const CopyOutput& output, int64_t stream) {
  SendChain(seat, output);
  for (const ShardReply& reply : output.replies) DeliverReply(seat, reply);
  for (const ShardRefusal& refusal : output.refusals) {
    const auto found = stream_of_.find(refusal.worker);
    Refuse(found == stream_of_.end() ? stream : found->second, refusal.status);
  }
  if (output.fault.ok()) return;
  const auto found = streams_.find(stream);
  if (found != streams_.end() && found->second.peer == Peer::kSuccessor) {
    GiveUp(output.fault);
  } else {
    Refuse(stream, output.fault);
  }
}

void Exchange::DeliverReply(Seat* seat, const ShardReply& reply) {
  books_.Blocked(seat->shard, {reply.worker, reply.step}, reply.blocked_ns);
  const auto found = stream_of_.find(reply.worker);
  // Its stream broke; it will attach and pull again.
  if (found == stream_of_.end()) return;
  StreamState& state = streams_[found->second];
  if (!state.owed.contains(seat->shard)) return;
  Outgoing out;
  out.header = MakeHeader(PARAMETERS, reply.worker, seat->shard);
  out.header.set_step(reply.step);
  out.header.set_version(reply.version);
  out.header.set_rejected(reply.rejected);
  out.header.set_base(reply.round);
  out.unit_bytes = SizeOf(config_.rules.wire_dtype);
  const auto wanted = seat->row_pulls.find(reply.worker);
  if (wanted != seat->row_pulls.end() && wanted->second.asked) {
    const Seat::RowPull& pull = wanted->second;
    out.header.mutable_rows()->set_tensor(pull.table.tensor);
    out.payload = PayloadOf(reply.parameters, pull.table, pull.rows, config_.rules.wire_dtype);
    counters_.rows_pulled += static_cast<int64_t>(pull.rows.size());
    seat->row_pulls.erase(wanted);
  } else {
    out.payload = seat->wire.Of(reply.version, reply.parameters);
  }
  out.header.set_total(out.payload.bytes / out.unit_bytes);
  ++state.owed[seat->shard];
  state.unsent_bytes += out.payload.bytes;
  outgoing_.push_back({found->second, std::move(out)});
}

// Of all workers in SYNC and K_OF_N, where it is the round; else of the one that is furthest
// behind.
int64_t Exchange::CutStepOf(const Seat& seat) const {
  if (!AppliesAlone(config_.rules.mode)) return seat.copy->shard().round();
  int64_t step = seat.copy->version();
  for (int32_t w = 0; w < config_.world_size; ++w) {
    if (present(w)) step = std::min(step, seat.copy->shard().last_step(w));
  }
  return step;
}

void Exchange::CutIfDue(Seat* seat) {
  const bool saves = config_.snapshot_every > 0 && seat->place.head && seat->copy->has_state();
  if (!saves) return;
  const int64_t step = CutStepOf(*seat);
  if (step % config_.snapshot_every != 0 || seat->cut == step) return;
  seat->cut = step;
  if (events_.cut) events_.cut(step, std::make_shared<const ShardState>(seat->copy->Save()));
}

void Exchange::Sending(const PsFrame& header, int64_t bytes, bool complete, int64_t stream) {
  const Traffic sent = {.sent_bytes = bytes, .sent_messages = 1};
  const auto found = streams_.find(stream);
  if (header.kind() == REPLICATE) {
    books_.BookReplication(header.shard(), header.version(), sent);
  } else {
    books_.Book(header, sent);
  }
  if (header.kind() == STATE && recovery_.has_value()) recovery_->traffic += sent;
  books_.Touch(header, clock_.NowNs());
  const bool answer = header.kind() == PARAMETERS || header.kind() == REPLICATED;
  // What the group before had queued serves nobody.
  if (answer && !left_ && header.epoch() == config_.epoch) NoteServing();
  const auto seat = seats_.find(header.shard());
  if (seat != seats_.end()) CrashWhileSending(header, complete, &seat->second);
  if (!complete || found == streams_.end()) return;
  if (header.kind() == PONG) found->second.owes_pong = false;
  if (header.kind() != PARAMETERS) return;
  --found->second.owed[header.shard()];
  found->second.unsent_bytes -= header.total() * SizeOf(config_.rules.wire_dtype);
}

void Exchange::Sent(const PsFrame& header, bool complete) {
  books_.Touch(header, clock_.NowNs());
  const bool mine = header.epoch() == config_.epoch;
  if (complete && mine && header.kind() == PARAMETERS) {
    books_.Replied(header.shard(), {header.worker(), header.step()});
  }
}

void Exchange::Crash(CrashPoint point, int64_t step) const {
  if (crash_) crash_(point, step);
}

void Exchange::CrashWhileSending(const PsFrame& header, bool complete, Seat* seat) const {
  const bool half = header.offset() * 2 >= header.total() || complete;
  if (header.kind() == STATE && half) Crash(CrashPoint::kDuringStateTransfer, header.version());
  if (header.kind() != PARAMETERS || header.step() == 0) return;
  if (half) Crash(CrashPoint::kDuringReply, header.step());
  if (!complete || header.version() <= seat->acknowledged) return;
  seat->acknowledged = header.version();
  Crash(CrashPoint::kAcknowledged, header.step());
}

}  // namespace lockstep
