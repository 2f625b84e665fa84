// ps_run.h: a parameter-server run as the coordinator sees it: every member is a session, and says
// what the test tells it to, on a clock that the test moves. Threads: one.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/experiments/coordinator/cluster.h"

namespace lockstep {

class PsRun {
 public:
  PsRun(int workers, int servers, const Ps& ps, const Experiment& experiment = {})
      : cluster_(workers, servers, ps, experiment) {
    const PlannedChanges planned(experiment);
    for (int i = 0; i < workers; ++i) {
      if (!planned.JoinsLater({WORKER, i})) Join({WORKER, i});
    }
    for (int i = 0; i < servers; ++i) Join({SERVER, i});
    ConnectAll();
  }

  void Join(const MemberId& id) {
    MemberEvent event = Cluster::JoinEvent(id.role, id.index);
    event.mutable_join()->set_pid(next_session_);
    sessions_[id] = next_session_;
    Take(cluster_.membership().OnEvent(next_session_++, event, cluster_.now()));
  }
  void Say(const MemberId& id, const MemberEvent& event) {
    Take(cluster_.membership().OnEvent(sessions_.at(id), event, cluster_.now()));
  }
  void ConnectAll() {
    MemberEvent event;
    event.mutable_connected();
    for (const auto& [id, session] : sessions_) Say(id, event);
  }
  void Finish(int worker, int64_t step) {
    MemberEvent event;
    event.mutable_beat()->set_step(step);
    Say({WORKER, worker}, event);
  }
  void Kill(const MemberId& id) {
    const int64_t session = sessions_.at(id);
    sessions_.erase(id);
    Take(cluster_.membership().OnClosed(session, cluster_.now()));
    Take(cluster_.membership().OnExit(
        {.member = id, .pid = session, .clean = false, .how = "was killed by SIGKILL"},
        cluster_.now()));
  }
  // A process that never joined.
  void Exit(const MemberId& id, int64_t pid) {
    Take(cluster_.membership().OnExit(
        {.member = id, .pid = pid, .clean = false, .how = "exited with code 4"}, cluster_.now()));
  }
  // As planned; its process ends well.
  void Depart(int worker, int64_t step) {
    const MemberId id = {WORKER, worker};
    MemberEvent event;
    event.mutable_departing()->set_step(step);
    Say(id, event);
    Gone(id);
  }
  // It was told to stop, and does.
  void Gone(const MemberId& id, bool clean = true) {
    const int64_t session = sessions_.at(id);
    sessions_.erase(id);
    Take(cluster_.membership().OnClosed(session, cluster_.now()));
    Take(cluster_.membership().OnExit(
        {.member = id, .pid = session, .clean = clean, .how = "exited with code 5"},
        cluster_.now()));
  }
  // Everybody leaves the group of this epoch; servers have `version` of all shards that the last
  // Start gave them, those that they were to join included.
  void LeaveAll(int64_t version) {
    const int64_t epoch = start_.epoch();
    for (const auto& [id, session] : sessions_) {
      if (start_.epoch() == epoch) Leave(id, version);
    }
  }
  void Leave(const MemberId& id, int64_t version,
             absl::StatusCode code = absl::StatusCode::kUnavailable) {
    MemberEvent event;
    Broken* broken = event.mutable_broken();
    broken->set_epoch(start_.epoch());
    broken->set_step(version);
    broken->set_code(static_cast<int>(code));
    broken->set_message("gone");
    broken->set_endpoint("127.0.0.1:9");
    for (const ShardChain& chain : start_.chain()) {
      std::set<int> servers(chain.server().begin(), chain.server().end());
      servers.insert(chain.joining().begin(), chain.joining().end());
      if (id.role != SERVER || !servers.contains(id.index)) continue;
      ShardHeld* held = broken->add_held();
      held->set_shard(chain.shard());
      held->set_version(version);
    }
    Say(id, event);
  }
  void Save(int server, int64_t step) {
    MemberEvent event;
    event.mutable_saved()->set_shard(server);
    event.mutable_saved()->set_version(step);
    event.mutable_saved()->set_step(step);
    Say({SERVER, server}, event);
  }
  void CatchUp(int teller, int shard, int server, int64_t bytes = 1'000) {
    MemberEvent event;
    event.mutable_caught_up()->set_epoch(start_.epoch());
    event.mutable_caught_up()->set_shard(shard);
    event.mutable_caught_up()->set_server(server);
    event.mutable_caught_up()->set_bytes(bytes);
    Say({SERVER, teller}, event);
  }
  // In ticks of 50 ms with everybody beating.
  void Live(int64_t ms) {
    MemberEvent beat;
    beat.mutable_beat();
    for (int64_t passed = 0; passed < ms; passed += 50) {
      for (const auto& [id, session] : sessions_) Say(id, beat);
      Take(cluster_.Pass(50));
    }
  }

  const Start& start() const { return start_; }
  // "0>1+2": server 0 is the head of the shard, 1 its tail, 2 joins.
  std::vector<std::string> Chains() const {
    std::vector<std::string> chains;
    for (const ShardChain& chain : start_.chain()) {
      std::string text;
      for (const int server : chain.server()) {
        absl::StrAppend(&text, text.empty() ? "" : ">", server);
      }
      for (const int server : chain.joining()) absl::StrAppend(&text, "+", server);
      chains.push_back(text);
    }
    return chains;
  }
  std::vector<std::string> TakeLines() { return std::exchange(lines_, {}); }
  int spawns(const MemberId& id) { return spawns_[id]; }
  // Sessions that were told that they have left.
  const std::set<int64_t>& released() const { return released_; }
  int64_t session(const MemberId& id) const { return sessions_.at(id); }
  const std::string& manifest() const { return manifest_; }
  Membership& membership() { return cluster_.membership(); }

 private:
  void Take(const std::vector<Effect>& effects) {
    for (const Effect& effect : effects) {
      if (effect.kind == Effect::Kind::kLine) lines_.push_back(effect.line);
      if (effect.kind == Effect::Kind::kSpawn) ++spawns_[effect.member];
      if (effect.kind == Effect::Kind::kManifest) manifest_ = effect.line;
      if (effect.command.stop().left()) released_.insert(effect.session);
      if (effect.command.has_start()) start_ = effect.command.start();
    }
  }

  Cluster cluster_;
  int64_t next_session_ = 1;  // pids are sessions
  std::map<MemberId, int64_t> sessions_;
  std::map<MemberId, int> spawns_;
  std::set<int64_t> released_;
  std::vector<std::string> lines_;
  std::string manifest_;
  Start start_;
};

inline Ps WithReplicas(int replicas) {
  Ps ps;
  ps.set_policy(Ps::CHAIN);
  ps.set_replicas(replicas);
  return ps;
}
inline Ps Snapshot() {
  Ps ps;
  ps.set_policy(Ps::SNAPSHOT);
  return ps;
}
inline Ps Workers(Ps::OnWorkerLoss on_loss, Ps::Mode mode = Ps::SYNC) {
  Ps ps;
  ps.set_on_worker_loss(on_loss);
  ps.set_mode(mode);
  return ps;
}

}  // namespace lockstep
