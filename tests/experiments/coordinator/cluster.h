// cluster.h: a Membership with its members on a clock that the test moves. Threads: one.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/member/member.h"
#include "experiments/coordinator/membership.h"

namespace lockstep {

// A cluster of `workers` and `servers` on a clock that the test moves. Sessions: 1 + position.
class Cluster {
 public:
  Cluster(int workers, int servers, AllReduceSync::OnLoss on_loss = AllReduceSync::STOP)
      : workers_(workers), membership_(Config(workers, servers, VariantOf(on_loss)), 0) {}
  Cluster(int workers, int servers, const Ps& ps, const Experiment& experiment = {})
      : workers_(workers), membership_(Config(workers, servers, VariantOf(ps), experiment), 0) {}

  static Variant VariantOf(AllReduceSync::OnLoss on_loss) {
    Variant variant;
    variant.mutable_all_reduce()->set_on_loss(on_loss);
    return variant;
  }
  static Variant VariantOf(const Ps& ps) {
    Variant variant;
    *variant.mutable_ps() = ps;
    return variant;
  }
  static MembershipConfig Config(int workers, int servers, const Variant& variant,
                                 const Experiment& experiment = {}) {
    MembershipConfig config;
    *config.run.mutable_experiment() = experiment;
    *config.run.mutable_variant() = variant;
    config.run.set_world_size(workers);
    config.run.set_servers(servers);
    config.build = "test";
    config.token = "secret";
    return config;
  }
  static MemberEvent JoinEvent(Role role, int index) {
    MemberEvent event;
    event.mutable_join()->set_role(role);
    event.mutable_join()->set_index(index);
    event.mutable_join()->set_build("test");
    event.mutable_join()->set_protocol(kProtocol);
    event.mutable_join()->set_token("secret");
    return event;
  }
  int64_t Session(Role role, int index) const {
    return 1 + (role == WORKER ? index : workers_ + index);
  }

  std::vector<Effect> Join(Role role, int index) {
    return membership_.OnEvent(Session(role, index), JoinEvent(role, index), clock_.NowNs());
  }
  std::vector<Effect> Event(int rank, const MemberEvent& event) {
    return membership_.OnEvent(Session(WORKER, rank), event, clock_.NowNs());
  }
  void StartAll(int servers) {
    for (int rank = 0; rank < workers_; ++rank) Join(WORKER, rank);
    for (int index = 0; index < servers; ++index) Join(SERVER, index);
    MemberEvent connected;
    connected.mutable_connected();
    for (int session = 1; session <= workers_ + servers; ++session) {
      membership_.OnEvent(session, connected, clock_.NowNs());
    }
  }
  void Report(int rank, absl::StatusCode code, const std::string& message, bool consequence,
              const std::vector<std::string>& blamed = {}) {
    MemberEvent event;
    for (const std::string& member : blamed) event.mutable_failed()->add_blamed(member);
    event.mutable_failed()->set_code(static_cast<int>(code));
    event.mutable_failed()->set_message(message);
    event.mutable_failed()->set_step(7);
    event.mutable_failed()->set_consequence(consequence);
    Event(rank, event);
  }
  void Advance(int64_t ms) { clock_.AdvanceMs(ms); }
  std::vector<Effect> Pass(int64_t ms) {
    clock_.AdvanceMs(ms);
    return membership_.OnTick(clock_.NowNs());
  }
  // As Pass, in ticks of 50 ms with everybody beating.
  void Live(int64_t ms) {
    MemberEvent beat;
    beat.mutable_beat()->set_step(3);
    for (int64_t passed = 0; passed < ms; passed += 50) {
      for (int rank = 0; rank < workers_; ++rank) Event(rank, beat);
      Pass(50);
    }
  }
  Membership& membership() { return membership_; }
  int64_t now() const { return clock_.NowNs(); }

 private:
  const int workers_;
  ManualClock clock_;
  Membership membership_;
};

inline int Count(const std::vector<Effect>& effects, Command::CommandCase command) {
  int count = 0;
  for (const Effect& effect : effects) count += effect.command.command_case() == command ? 1 : 0;
  return count;
}

}  // namespace lockstep
