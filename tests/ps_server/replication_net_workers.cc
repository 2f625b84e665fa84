// The workers of a ReplicationNet, and the checks at its end.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/fingerprint.h"
#include "base/numeric/convert.h"
#include "tests/ps_server/reference.h"
#include "tests/ps_server/replication_net.h"

namespace lockstep {
namespace {

constexpr int64_t kCount = 6;

std::vector<std::byte> WireBytes(const std::vector<float>& values, Dtype wire) {
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(SizeOf(wire)));
  if (wire == Dtype::kF32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
  } else {
    Convert(Dtype::kF32, values.data(), wire, bytes.data(), static_cast<int64_t>(values.size()));
  }
  return bytes;
}

uint64_t ContentOf(const std::vector<float>& values) {
  return Fingerprint64(std::as_bytes(std::span(values)));
}

}  // namespace

// ---- Workers ----

// One after the other, to the head of the worker's epoch.
void ReplicationNet::ToHead(int32_t w, std::function<void(const Server&)> deliver) {
  Worker& worker = workers_[static_cast<size_t>(w)];
  After(InOrder(&worker.last_send),
        [head = chain_.front(), epoch = worker.epoch, deliver = std::move(deliver)] {
          if (head->alive && !head->left && head->epoch == epoch) deliver(head);
        });
}

void ReplicationNet::Attach(int32_t w, int64_t life) {
  Worker& worker = workers_[static_cast<size_t>(w)];
  const Server head = chain_.front();
  if (life != worker.life || !head->alive || head->epoch != worker.epoch) return;
  Feed(head, ShardEvent{AttachEvent{w, worker.incarnation}});
  const int64_t last_step = head->copy->shard().last_step(w);
  const bool initialized = head->copy->shard().initialized();
  After(Delay(), [=, this] { Welcome(w, life, last_step, initialized); });
}

void ReplicationNet::Welcome(int32_t w, int64_t life, int64_t last_step, bool initialized) {
  Worker& worker = workers_[static_cast<size_t>(w)];
  if (life != worker.life) return;
  if (last_step < worker.finished) {
    Broken(absl::StrCat("worker ", w, " had finished step ", worker.finished,
                        ", the head of epoch ", epoch_, " knows ", last_step));
  }
  if (!initialized && w == 0) SendStart(w);
  if (last_step == worker.finished) {
    if (last_step < options_.steps) SendPush(w, last_step + 1);
  } else {
    SendPull(w, last_step);
  }
}

void ReplicationNet::OnReply(int32_t w, int64_t life, const ShardReply& reply) {
  Worker& worker = workers_[static_cast<size_t>(w)];
  if (life != worker.life && options_.bug != Bug::kNoFence) return;
  if (reply.step == worker.finished) return;
  if (reply.rejected) ++rejected_;
  worker.finished = reply.step;
  worker.round = reply.round;
  worker.parameters = *reply.parameters;
  if (reply.step < options_.steps) SendPush(w, reply.step + 1);
}

std::vector<float> ReplicationNet::GradientsOf(int32_t worker, int64_t step,
                                               const std::vector<float>& parameters) const {
  std::vector<float> gradients = Gradients(options_.seed, worker, step, kCount);
  if (options_.rules.mode != PsMode::kSync) return gradients;
  // Whoever makes a step again must start from the same parameters.
  for (size_t i = 0; i < gradients.size(); ++i) gradients[i] += 0.25F * parameters[i];
  return gradients;
}

void ReplicationNet::SendStart(int32_t w) {
  const std::vector<float> values = StartValues(options_.seed, kCount);
  const UpdateId id = {w, workers_[static_cast<size_t>(w)].incarnation, 0, 0};
  ToHead(w, [this, id, values](const Server& head) {
    const std::vector<std::byte> bytes = WireBytes(values, options_.rules.wire_dtype);
    const std::array<Bytes, 1> pieces = {Bytes(bytes)};
    Feed(head, ShardEvent{InitEvent{id, {0, kCount, pieces}}});
  });
}

void ReplicationNet::SendPush(int32_t w, int64_t step) {
  const Worker& worker = workers_[static_cast<size_t>(w)];
  const UpdateId id = {w, worker.incarnation, step, 0};
  const std::vector<float> values = GradientsOf(w, step, worker.parameters);
  const int64_t cut = 1 + Below(kCount - 1);
  const bool twice = OneIn(5);
  for (const auto& [begin, end] : {std::pair{int64_t{0}, cut}, std::pair{cut, kCount}}) {
    for (int times = 0; times < (twice ? 2 : 1); ++times) {
      const bool again = times > 0;
      ToHead(w, [=, this, base = worker.round, begin = begin, end = end](const Server& head) {
        UpdateId as = id;
        if (again && options_.bug == Bug::kCountRequests) {
          as.worker = (id.worker + 1) % options_.workers;
          as.incarnation = workers_[static_cast<size_t>(as.worker)].incarnation;
        }
        DeliverChunk(head, as, base, values, begin, end);
      });
    }
  }
  SendPull(w, step);
}

void ReplicationNet::DeliverChunk(const Server& head, const UpdateId& id, int64_t base,
                                  const std::vector<float>& values, int64_t begin, int64_t end) {
  std::vector<float> sent(values.begin() + begin, values.begin() + end);
  if (options_.bug == Bug::kApplyHalf && begin == 0) sent.resize(kCount, 0.0F);
  const std::vector<std::byte> bytes = WireBytes(sent, options_.rules.wire_dtype);
  const std::array<Bytes, 1> pieces = {Bytes(bytes)};
  Feed(head, ShardEvent{PushEvent{id, {begin, kCount, pieces}, base}});
}

void ReplicationNet::SendPull(int32_t w, int64_t step) {
  const UpdateId id = {w, workers_[static_cast<size_t>(w)].incarnation, step, 0};
  ToHead(w, [this, id](const Server& head) { Feed(head, ShardEvent{PullEvent{id}}); });
}

// ---- The end ----

void ReplicationNet::Finish() {
  for (int32_t w = 0; w < options_.workers; ++w) {
    const Worker& worker = workers_[static_cast<size_t>(w)];
    if (worker.finished == options_.steps) continue;
    Broken(absl::StrCat("worker ", w, " stopped after step ", worker.finished));
  }
  const Server head = chain_.front();
  if (!head->alive || !head->copy.has_value() || !head->copy->has_state()) {
    return Broken("the last head is not there");
  }
  final_ = head->copy->shard().parameters();
  for (const Server& server : chain_) {
    const bool equal = server->copy.has_value() && server->copy->has_state() &&
                       server->copy->Save() == head->copy->Save();
    if (!equal)
      Broken(absl::StrCat("server ", server->server, " differs from the head at the end"));
  }
  if (chain_.size() != slots_.size()) Broken("the chain has not got all its copies again");
  ledger_.Final(0, head->copy->version(), ContentOf(*final_));
  if (options_.replayed) ExpectContents();
  for (const std::string& text : ledger_.Check(options_.steps)) Broken(text);
}

// SYNC: the undisturbed run. Others: what survived, made again.
void ReplicationNet::ExpectContents() {
  std::vector<float> parameters = StartValues(options_.seed, kCount);
  std::vector<float> state(static_cast<size_t>(kCount), 0.0F);
  std::vector<std::vector<UpdateId>> updates = ledger_.Surviving(0);
  if (options_.rules.mode == PsMode::kSync) {
    updates.assign(static_cast<size_t>(options_.steps), {});
    for (size_t at = 0; at < updates.size(); ++at) {
      for (int32_t w = 0; w < options_.workers; ++w) {
        updates[at].push_back({w, 0, static_cast<int64_t>(at) + 1, 0});
      }
    }
  }
  for (size_t at = 0; at < updates.size(); ++at) {
    std::vector<std::vector<float>> pushes;
    for (const UpdateId& id : updates[at]) {
      pushes.push_back(GradientsOf(id.worker, id.step, parameters));
    }
    OptimizerOptions optimizer = options_.rules.optimizer;
    const UpdateId& first = updates[at].front();
    const bool alone = late_.contains({first.worker, first.step});
    if (optimizer.divisor != 1) {
      optimizer.divisor =
          alone ? static_cast<float>(options_.rules.k) : static_cast<float>(pushes.size());
    }
    ReferenceStep(RankOrderSum(pushes), optimizer, &state, &parameters);
    ledger_.Expect(0, static_cast<int64_t>(at) + 1, ContentOf(parameters));
  }
}

}  // namespace lockstep
