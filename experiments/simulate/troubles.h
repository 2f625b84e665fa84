// troubles.h: makes a plan's disturbances happen to a simulated world, each at its time, to whoever
// is in the target's place then. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "experiments/simulate/disk.h"
#include "experiments/simulate/plan.h"
#include "experiments/simulate/world.h"

namespace lockstep {

class Troubles {
 public:
  struct Cluster {
    std::function<int64_t(const TroubleTarget&)> process;  // in that place now; 0: none
    std::function<void(int32_t worker, int64_t frames)> duplicate;
    SimDisk* disk;
  };
  // The plan and the world must outlive it.
  Troubles(const Plan& plan, SimWorld* world, Cluster cluster);

  void Begin();
  // A group was declared dead: what counts from then is planned now.
  void GroupIsDead();
  // Whether this server is to die at this point now. Each planned crash strikes once.
  bool Strikes(int32_t server, CrashPoint point, int64_t step);
  bool lost_host(int32_t host) const { return lost_hosts_.contains(host); }

 private:
  void Schedule(const Disturbance& each);
  void Strike(const Disturbance& each);
  void BetweenHosts(const Disturbance& each, int32_t a, int32_t b, double until_ns);
  void Gray(const Disturbance& each, int32_t host, double until_ns);

  const Plan& plan_;
  SimWorld& world_;
  const Cluster cluster_;
  std::vector<bool> struck_;  // crash points
  std::set<int32_t> lost_hosts_;
  int32_t deaths_ = 0;
};

}  // namespace lockstep
