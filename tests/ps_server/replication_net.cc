#include "tests/ps_server/replication_net.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/fingerprint.h"
#include "tests/ps_server/reference.h"

namespace lockstep {
namespace {

constexpr int64_t kCount = 6;
constexpr int64_t kEventsMax = 200'000;

uint64_t ContentOf(const std::vector<float>& values) {
  return Fingerprint64(std::as_bytes(std::span(values)));
}

}  // namespace

ReplicationNet::ReplicationNet(const NetOptions& options)
    : options_(options),
      random_(options.seed * 7'919),
      ledger_(options.rules, options.workers, 1),
      slots_(static_cast<size_t>(options.replicas) + 1),
      workers_(static_cast<size_t>(options.workers)) {
  shard_.rules = options.rules;
  // Two tensors, so that SYNC makes the first one's part of a version before a push is whole.
  constexpr int64_t kHalf = kCount / 2;
  shard_.range = {.offset = 0,
                  .count = kCount,
                  .parts = {{.tensor = 0, .flat = 0, .offset = 0, .count = kHalf},
                            {.tensor = 1, .flat = kHalf, .offset = 0, .count = kCount - kHalf}}};
  shard_.world_size = options.workers;
  shard_.staged_bytes_max = 1 << 20;
  shard_.sync_timeout_ms = 1'000'000;
}

void ReplicationNet::Broken(const std::string& what) {
  if (broken_.size() < 20) broken_.push_back(absl::StrCat("at ", now_, ": ", what));
}

void ReplicationNet::After(int64_t ticks, std::function<void()> run) {
  queue_.push({now_ + ticks, ++events_, std::move(run)});
}

// Ticks until something arrives that was sent now, after all that was sent before it.
int64_t ReplicationNet::InOrder(int64_t* last) {
  *last = std::max(*last, now_ + Delay());
  return *last - now_;
}

ReplicationNet::~ReplicationNet() {
  for (const Server& process : all_) {
    process->opening.reset();
    process->down.reset();
    process->up.reset();
  }
}

ReplicationNet::Server ReplicationNet::MakeProcess(int32_t server) {
  all_.push_back(std::make_shared<Process>());
  all_.back()->server = server;
  return all_.back();
}

void ReplicationNet::Run() {
  for (size_t s = 0; s < slots_.size(); ++s) {
    slots_[s] = MakeProcess(static_cast<int32_t>(s));
  }
  chain_ = slots_;
  BeginEpoch();
  for (int i = 0; i < options_.losses + options_.worker_losses; ++i) {
    After(Below(60 * options_.steps), [this] { MaybeLose(); });
  }
  while (!queue_.empty()) {
    if (events_ > kEventsMax) return Broken("no end: too many events");
    const Event event = queue_.top();
    queue_.pop();
    now_ = event.at;
    event.run();
  }
  Finish();
}

// ---- Coordinator ----

void ReplicationNet::ScheduleEpoch() {
  if (epoch_scheduled_) return;
  epoch_scheduled_ = true;
  After(5 + Below(60), [this] { BeginEpoch(); });
}

std::vector<ReplicationNet::Server> ReplicationNet::Members() const {
  std::vector<Server> members;
  for (const Server& server : chain_) {
    const bool has = server->copy.has_value() && server->copy->has_state();
    if (server->alive && !server->zombie && !server->doomed && has) members.push_back(server);
  }
  return members;
}

bool ReplicationNet::Survives(const Server& without) const {
  const std::vector<Server> members = Members();
  return members.size() > 1 || (members.size() == 1 && members[0] != without);
}

void ReplicationNet::BeginEpoch() {
  epoch_scheduled_ = false;
  ++epoch_;
  std::vector<Server> chain = Members();
  if (chain.empty() && began_) return Broken("no copy is left");
  const size_t members = chain.empty() ? slots_.size() : chain.size();
  for (const Server& server : slots_) {
    if (server == nullptr) continue;
    if (std::find(chain.begin(), chain.end(), server) == chain.end()) chain.push_back(server);
  }
  chain_ = chain;
  for (const Server& server : chain) server->left = true;
  for (size_t i = 0; i < chain.size(); ++i) {
    ChainPlace place = {.epoch = epoch_, .head = i == 0, .aggregated = options_.aggregated};
    if (i > 0) place.predecessor = chain[i - 1]->server;
    if (i + 1 < chain.size()) place.successor = chain[i + 1]->server;
    place.joins = i >= members;
    place.successor_joins = i + 1 >= members;
    After(Delay(), [this, server = chain[i], place] { Enter(server, place); });
  }
  for (Worker& worker : workers_) {
    worker.epoch = epoch_;
    ++worker.life;
    worker.last_send = now_;
  }
}

void ReplicationNet::Enter(const Server& server, const ChainPlace& place) {
  if (!server->alive || server->zombie || place.epoch != epoch_) return;
  server->left = false;
  if (server->copy.has_value()) {
    Feed(server, EpochEvent{place, std::vector<bool>(workers_.size(), true)});
  } else {
    server->copy = *ShardCopy::Create(shard_, place);
    server->copy->set_crash_hook([this, process = server.get()](CrashPoint point, int64_t) {
      if (lost_ >= options_.losses || process->doomed || process->zombie) return;
      if (!OneIn(point == CrashPoint::kRestoring ? 6 : 25)) return;
      const auto self = std::find_if(chain_.begin(), chain_.end(),
                                     [&](const Server& s) { return s.get() == process; });
      if (self == chain_.end() || !Survives(*self)) return;
      process->doomed = true;
      ++deaths_[point];
    });
  }
  if (!server->alive) return;
  server->epoch = place.epoch;
  OpenStreams();
  if (!place.head) return;
  for (int32_t w = 0; w < options_.workers; ++w) {
    const int64_t life = workers_[static_cast<size_t>(w)].life;
    After(Delay(), [this, w, life] { Attach(w, life); });
  }
}

void ReplicationNet::OpenStreams() {
  for (size_t i = 0; i + 1 < chain_.size(); ++i) {
    const bool both = chain_[i]->epoch == epoch_ && chain_[i + 1]->epoch == epoch_;
    const auto& opening = chain_[i]->opening;
    if (both && (opening == nullptr || opening->epoch != epoch_)) Open(chain_[i], chain_[i + 1]);
  }
}

void ReplicationNet::Open(const Server& from, const Server& to) {
  const auto stream = std::make_shared<Stream>();
  *stream = {.from = from, .to = to, .epoch = epoch_};
  from->opening = stream;
  After(Delay(), [this, stream] {  // HELLO arrives, WELCOME is written
    if (!stream->to->alive || stream->to->epoch != stream->epoch) return;
    stream->to->up = stream;
    const ShardCopy& copy = *stream->to->copy;
    const SuccessorEvent has = {copy.has_state(), copy.version(), copy.marks()};
    After(InOrder(&stream->last_up), [this, stream, has] {
      if (!stream->open || stream->from->epoch != stream->epoch) return;
      stream->from->down = stream;
      Feed(stream->from, has);
    });
  });
}

void ReplicationNet::Lose(const Server& server) {
  ++lost_;
  slots_[static_cast<size_t>(server->server)] = nullptr;
  if (!server->doomed && OneIn(3)) {
    // It goes on in its old epoch, until its lease ends.
    ++zombies_;
    server->zombie = true;
    After(150 + Below(300), [server] { server->alive = false; });
  } else {
    server->alive = false;
  }
  ScheduleEpoch();
  After(20 + Below(300), [this, index = server->server] {
    slots_[static_cast<size_t>(index)] = MakeProcess(index);
    ScheduleEpoch();
  });
}

void ReplicationNet::MaybeLose() {
  if (worker_lost_ < options_.worker_losses && OneIn(2)) {
    ++worker_lost_;
    Worker& worker = workers_[static_cast<size_t>(Below(options_.workers))];
    worker = {.incarnation = worker.incarnation + 1, .life = worker.life + 1, .parameters = {}};
    return ScheduleEpoch();
  }
  if (lost_ >= options_.losses) return;
  const Server server = chain_[static_cast<size_t>(Below(static_cast<int64_t>(chain_.size())))];
  if (server->alive && !server->zombie && Survives(server)) Lose(server);
}

// ---- Servers ----

void ReplicationNet::Feed(const Server& server, const CopyEvent& event, int64_t /*life*/) {
  if (!server->alive || server->left || !server->copy.has_value()) return;
  int64_t epoch = server->copy->place().epoch;
  if (const auto* e = std::get_if<ReplicateEvent>(&event)) epoch = e->epoch;
  if (const auto* e = std::get_if<StateEvent>(&event)) epoch = e->epoch;
  if (const auto* e = std::get_if<ReplicatedEvent>(&event)) epoch = e->epoch;
  const bool of_this_epoch = epoch == server->copy->place().epoch;
  CopyOutput output = server->copy->Handle(event, now_);
  if (server->doomed) return Lose(server);  // nothing of it leaves
  OnOutput(server, &output, of_this_epoch);
}

void ReplicationNet::OnOutput(const Server& server, CopyOutput* output, bool of_this_epoch) {
  const ShardCopy& copy = *server->copy;
  began_ = began_ || copy.has_state();
  if (output->fault.ok() != of_this_epoch) {
    if (options_.bug == Bug::kNone) {
      Broken(absl::StrCat("server ", server->server, " in epoch ", copy.place().epoch,
                          of_this_epoch ? " refuses: " : " takes a message of another epoch ",
                          output->fault.ToString()));
    }
  }
  if (!output->fault.ok()) ++refused_;
  for (const ShardRefusal& refusal : output->refusals) {
    if (options_.bug == Bug::kNone) Broken(refusal.status.ToString());
  }
  if (output->update.has_value()) {
    const ShardUpdate& update = *output->update;
    const bool alone = update.late.size() == update.ids.size();
    for (const UpdateId& id : update.ids) {
      if (copy.place().head && alone) late_.emplace(id.worker, id.step);
      if (copy.place().head && !alone) late_.erase({id.worker, id.step});
    }
    ledger_.Applied(server->server, copy.place().epoch, 0, output->update->version,
                    output->update->ids, ContentOf(*copy.shard().parameters()));
  }
  if (output->dropped.has_value()) {
    ledger_.Dropped(copy.place().epoch, 0, copy.version(), *output->dropped);
  }
  if (output->caught_up) {
    ++caught_up_;
    if (!server->down->to->copy->has_state()) Broken("caught up without the state");
  }
  SendDown(server, output);
  if (!server->alive) return;
  if (output->to_predecessor.has_value()) Up(server, *output->to_predecessor);
  for (const ShardReply& reply : output->replies) Answer(server, reply);
  const bool may_die = !server->zombie && lost_ < options_.losses && Survives(server);
  if (!output->replies.empty() && may_die && OneIn(15)) {
    ++deaths_[CrashPoint::kAcknowledged];
    server->doomed = true;
    Lose(server);
  }
}

void ReplicationNet::SendDown(const Server& server, CopyOutput* output) {
  const std::shared_ptr<Stream> stream = server->down;
  if (output->state_to_successor != nullptr) {
    const bool dies = lost_ < options_.losses && OneIn(8);
    const Server& victim = OneIn(2) ? server : stream->to;
    if (dies && victim->alive && !victim->zombie && Survives(victim)) {
      ++deaths_[CrashPoint::kDuringStateTransfer];
      victim->doomed = true;
      return Lose(victim);
    }
    StateEvent event = {stream->epoch, *output->state_to_successor};
    if (options_.bug == Bug::kForgetMarks) {
      for (WorkerMark& mark : event.state.workers) mark = {.incarnation = mark.incarnation};
    }
    Down(stream, event);
  }
  for (const Replicate& message : output->to_successor) {
    Down(stream, ReplicateEvent{stream->epoch, message});
  }
  if (options_.bug != Bug::kAcknowledgeEarly || !server->copy->place().head) return;
  for (const Replicate& message : output->to_successor) {
    Feed(server, ReplicatedEvent{stream->epoch, message.sequence, message.version});
  }
}

void ReplicationNet::Down(const std::shared_ptr<Stream>& stream, CopyEvent event) {
  if (!stream->open) return;
  if (broke_ < options_.breaks && !stream->from->zombie && OneIn(30)) {
    ++broke_;
    stream->open = false;
    After(Delay(), [this, stream] {
      const bool stands = stream->from->epoch == stream->epoch &&
                          stream->to->epoch == stream->epoch && stream->epoch == epoch_;
      if (stands && stream->from->alive && stream->to->alive) Open(stream->from, stream->to);
    });
    return;
  }
  After(InOrder(&stream->last_down), [this, stream, event = std::move(event)]() mutable {
    if (!stream->open || !stream->to->copy.has_value()) return;
    if (options_.bug == Bug::kNoFence) {
      const int64_t epoch = stream->to->copy->place().epoch;
      if (auto* e = std::get_if<ReplicateEvent>(&event)) e->epoch = epoch;
      if (auto* e = std::get_if<StateEvent>(&event)) e->epoch = epoch;
    }
    Feed(stream->to, event);
  });
}

void ReplicationNet::Up(const Server& server, const ReplicatedEvent& event) {
  const std::shared_ptr<Stream> stream = server->up;
  if (stream == nullptr || !stream->open || stream->epoch != event.epoch) return;
  After(InOrder(&stream->last_up), [this, stream, event] {
    if (!stream->open) return;
    const int64_t now = stream->from->copy->place().epoch;
    Feed(stream->from, ReplicatedEvent{options_.bug == Bug::kNoFence ? now : event.epoch,
                                       event.sequence, event.version});
  });
}

void ReplicationNet::Answer(const Server& server, const ShardReply& reply) {
  const int64_t epoch = server->copy->place().epoch;
  Worker& worker = workers_[static_cast<size_t>(reply.worker)];
  ledger_.Told(server->server, epoch, 0, reply.worker, reply.step, reply.version, reply.least_step,
               reply.rejected);
  for (const Server& member : Members()) {
    if (member->copy->version() >= reply.version) continue;
    Broken(absl::StrCat("worker ", reply.worker, " is told version ", reply.version, " by server ",
                        server->server, " in epoch ", epoch, "; server ", member->server,
                        " may become the head and has ", member->copy->version()));
  }
  const int64_t life = worker.life;
  if (epoch != worker.epoch && options_.bug != Bug::kNoFence) return;
  After(Delay(), [this, reply, life] { OnReply(reply.worker, life, reply); });
}

}  // namespace lockstep
