#include "experiments/simulate/server.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "ps_server/service/server_config.h"

namespace lockstep {
namespace {

constexpr int64_t kTickTimer = 0;
constexpr int64_t kTickMs = 20;
constexpr double kWriteNs = 8e6;  // of a snapshot, in two halves; then it is named
constexpr char kToken[] = "";

}  // namespace

SimServer::SimServer(const SimContext& self, SimServerOptions options, SimDisk* disk,
                     SimServerEvents events)
    : SimMember(self, options.member),
      server_(std::move(options)),
      disk_(*disk),
      events_(std::move(events)),
      exchange_(kToken, ExchangeEvents(), self_) {
  if (server_.crash) exchange_.set_crash_hook(server_.crash);
}

PsServerEvents SimServer::ExchangeEvents() {
  PsServerEvents events;
  events.update = [this](const UpdateServed& served) {
    version_ = std::max(version_, served.update.version);
    if (events_.served) events_.served(served);
  };
  events.cut = [this](int64_t step, std::shared_ptr<const ShardState> state) {
    Cut(step, std::move(state));
  };
  events.caught_up = [this](int64_t epoch, const CopyJoined& joined) {
    Say(CaughtUpEvent(epoch, joined));
  };
  events.broken = [this](int64_t epoch, const absl::Status& cause) {
    if (epoch == group_.epoch()) broken_ = cause;  // the exchange is not to be called back
  };
  return events;
}

absl::StatusOr<PsServerConfig> SimServer::Config() {
  const Start& start = group_.start();
  ASSIGN_OR_RETURN(PsServerConfig config, ServerConfigFrom(start, index()));
  config.limits = options_.limits;
  if (!start.restore()) return config;
  if (server_.crash) server_.crash(CrashPoint::kRestoring, start.step());
  for (const int32_t shard : RestoredShards(start, index())) {
    ASSIGN_OR_RETURN(ShardState state, disk_.Read(shard, start.step()));
    config.restored[shard].push_back(Restored(std::move(state)));
    // Later cuts are of steps that are made again.
    waiting_.erase(shard);
    std::erase_if(writing_, [&](const auto& each) { return each.second.state->shard == shard; });
    disk_.Rewind(shard, start.step());
  }
  return config;
}

void SimServer::OnGroup() {
  left_ns_ = 0;
  absl::StatusOr<PsServerConfig> config = Config();
  absl::Status status = config.status();
  if (status.ok()) status = exchange_.Configure(*std::move(config));
  if (!status.ok()) return GiveUp(status);
  Flush();
  SayConnected();
  if (!std::exchange(ticks_, true)) OnOwnTimer(kTickTimer);
}

void SimServer::LeaveGroup(const absl::Status& cause) {
  held_.clear();
  version_ = -1;  // nothing is here
  for (const HeldShard& held : exchange_.Leave(cause)) {
    ShardHeld shard;
    shard.set_shard(held.shard);
    shard.set_version(held.version);
    held_.push_back(shard);
    version_ = std::max(version_, held.version);
  }
  Flush();
  left_ns_ = self_.NowNs();
}

void SimServer::OnOpened(int64_t stream) {
  senders_[stream].own = stream;
  exchange_.Opened(stream, kToken);
  Flush();
}

void SimServer::OnFrame(int64_t stream, const std::string& bytes) {
  const auto sender = senders_.find(stream);
  if (sender == senders_.end()) return;
  const std::string admitted = Admitted(stream, bytes);
  const std::vector<Bytes> slices = {std::as_bytes(std::span(admitted))};
  exchange_.Received(sender->second.own, slices);
  Flush();
}

void SimServer::OnRoom(int64_t stream) {
  const auto sender = senders_.find(stream);
  if (sender == senders_.end()) return;
  Pump(stream, &sender->second);
  Flush();
}

void SimServer::OnStreamClosed(int64_t stream) {
  const auto sender = senders_.find(stream);
  if (sender == senders_.end()) return;
  const int64_t own = sender->second.own;
  Drop(stream);
  exchange_.Closed(own);
  Flush();
}

void SimServer::Drop(int64_t stream) {
  dialled_.erase(senders_[stream].own);
  senders_.erase(stream);
}

void SimServer::Flush() {
  Perform();
  const absl::Status broken = std::exchange(broken_, absl::OkStatus());
  if (!broken.ok() && group_.started()) GiveUp(broken);
}

void SimServer::Perform() {
  events_.moved(self_.process(), group_.epoch(), exchange_);
  while (true) {
    const std::vector<Dial> dials = exchange_.TakeDials();
    std::vector<std::pair<int64_t, Outgoing>> outgoing = exchange_.TakeOutgoing();
    if (dials.empty() && outgoing.empty()) return;
    for (const Dial& dial : dials) {
      const int64_t stream = self_.Open(dial.endpoint.port, /*data=*/true);
      senders_[stream].own = dial.stream;
      dialled_[dial.stream] = stream;
    }
    for (auto& [own, message] : outgoing) {
      const auto dialled = dialled_.find(own);
      const int64_t stream = dialled == dialled_.end() ? own : dialled->second;
      const auto sender = senders_.find(stream);
      if (sender == senders_.end()) continue;  // it is closed, and the exchange will be told
      sender->second.queue.push_back(std::move(message));
      Pump(stream, &sender->second);
    }
    events_.moved(self_.process(), group_.epoch(), exchange_);
  }
}

void SimServer::Pump(int64_t stream, Sender* sender) {
  while (!sender->queue.empty() && self_.HasRoom(stream)) {
    const Outgoing& message = sender->queue.front();
    if (message.last && !HangsUp(stream)) {
      const int64_t own = sender->own;
      Drop(stream);
      return exchange_.Closed(own);
    }
    const Chunk chunk = NextChunk(message, exchange_.chunk_bytes(), &sender->sent_bytes);
    int64_t payload_bytes = 0;
    for (const Bytes piece : chunk.pieces) payload_bytes += static_cast<int64_t>(piece.size());
    std::string bytes = EncodeHeader(chunk.header, payload_bytes);
    for (const Bytes piece : chunk.pieces) {
      bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    }
    exchange_.Sending(chunk.header, static_cast<int64_t>(bytes.size()), chunk.complete,
                      sender->own);
    self_.Send(stream, std::move(bytes));
    exchange_.Sent(chunk.header, chunk.complete);
    Shipped(stream, chunk.header);
    if (!chunk.complete) continue;
    const bool last = message.last;
    sender->queue.pop_front();
    sender->sent_bytes = 0;
    if (!last) continue;
    const int64_t own = sender->own;
    self_.Close(stream);
    Drop(stream);
    exchange_.Closed(own);
    return;
  }
}

void SimServer::OnOwnTimer(int64_t timer) {
  if (timer != kTickTimer) return WriteSnapshot(timer);
  exchange_.Tick();
  Flush();
  self_.After(static_cast<double>(kTickMs * kNsPerMs), kTickTimer);
}

// One state of each shard may wait for the disk; a newer one takes its place.
void SimServer::Cut(int64_t step, std::shared_ptr<const ShardState> state) {
  const int32_t shard = state->shard;
  waiting_[shard] = {step, std::move(state)};
  WriteNext();
}

void SimServer::WriteNext() {
  if (!writing_.empty() || waiting_.empty()) return;
  const auto next = waiting_.begin();
  writing_[next_timer_] = std::move(next->second);
  waiting_.erase(next);
  self_.After(kWriteNs / 2, next_timer_);
  next_timer_ += 2;
}

// An odd timer: half of the bytes are written; the even one after it: all are, and named.
void SimServer::WriteSnapshot(int64_t timer) {
  const bool half = timer % 2 == 1;
  const auto found = writing_.find(half ? timer : timer - 1);
  if (found == writing_.end()) return WriteNext();  // a restore made it void
  const Snapshot snapshot = found->second;
  if (half) {
    if (server_.crash) server_.crash(CrashPoint::kDuringSnapshot, snapshot.step);
    return self_.After(kWriteNs / 2, timer + 1);
  }
  if (server_.crash) server_.crash(CrashPoint::kSnapshotNotNamed, snapshot.step);
  writing_.erase(found);
  const EncodedState encoded = EncodeState(*snapshot.state);
  std::string bytes;
  for (const Bytes part : encoded.parts) {
    bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  const int32_t shard = snapshot.state->shard;
  if (!disk_.Write(index(), shard, snapshot.step, std::move(bytes)).ok()) return WriteNext();
  MemberEvent event;
  Saved* saved = event.mutable_saved();
  saved->set_shard(shard);
  saved->set_version(snapshot.state->version);
  saved->set_step(snapshot.step);
  saved->set_bytes(encoded.bytes);
  saved->set_checksum(encoded.checksum);
  saved->set_path(SimDisk::NameOf(shard, snapshot.step));
  Say(event);
  WriteNext();
}

absl::Status SimServer::CheckDeadlines() {
  if (left_ns_ == 0) return absl::OkStatus();
  const int64_t waited_ms = (self_.NowNs() - left_ns_) / kNsPerMs;
  if (waited_ms >= options_.limits.rebuild_timeout_ms + options_.limits.lease_ms) {
    Fail(absl::DeadlineExceededError("no new group came"));
  }
  return absl::OkStatus();
}

}  // namespace lockstep
