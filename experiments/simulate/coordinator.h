// coordinator.h: the simulated coordinator: the real Membership state machine
// (experiments/coordinator/membership.h) on one host, a stream of the simulated network for each
// session. What it asks for is done by its owner: processes are started, lines are kept.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "experiments/coordinator/membership.h"
#include "experiments/simulate/world.h"

namespace lockstep {

class SimCoordinator : public SimProcess {
 public:
  struct Events {
    std::function<void(const MemberId&)> spawn;
    std::function<void(const std::string&)> line;
    // Before it is sent; each is seen once for each member.
    std::function<void(const Command&)> command;
  };
  SimCoordinator(const SimContext& self, const MembershipConfig& config, Events events);

  void OnStart() override;
  void OnMessage(int64_t stream, const std::string& bytes) override;
  void OnClosed(int64_t stream) override;
  void OnTimer(int64_t timer) override;

  // The launcher saw a process end.
  void OnExit(const MemberExit& exit) { Perform(membership_.OnExit(exit, LeaseNowNs())); }
  const Membership& membership() const { return membership_; }

 protected:
  virtual int64_t LeaseNowNs() const { return self_.NowNs(); }

  const SimContext self_;

 private:
  void Perform(const std::vector<Effect>& effects);

  Membership membership_;
  const Events events_;
};

}  // namespace lockstep
