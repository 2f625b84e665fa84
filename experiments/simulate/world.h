// world.h: processes on hosts, in one thread, on one event queue: who is alive, frozen or slow,
// what each one's clock shows, and the network between them. A process sees only its SimContext:
// its own clock, its streams, its timers, its end. Faults of processes are made here; what reaches
// a frozen one waits for it, what reaches a slow one takes its turn. A crash point's hook throws
// SimCrash, which unwinds the process's own code and no further than the dispatch: a process that
// is to die inside a call can't return from it. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/port.h"
#include "experiments/simulate/clock.h"
#include "experiments/simulate/network.h"

namespace lockstep {

class SimWorld;
struct SimCrash {};

// A process's view of the world.
class SimContext final : public Clock {
 public:
  SimContext(SimWorld* world, int64_t process) : world_(*world), process_(process) {}

  int64_t process() const { return process_; }
  int64_t NowNs() const override;  // monotonic, this host's
  int64_t WallNs() const;
  // OnTimer(timer) after so much of this process's own time.
  void After(double delay_ns, int64_t timer) const;
  // How much longer it computes than a healthy one.
  double Slowness() const;
  int64_t Open(int64_t to, bool data) const;
  bool HasRoom(int64_t stream) const;
  void Send(int64_t stream, std::string bytes) const;
  void Close(int64_t stream) const;
  // The process ends; nothing of it may run after the call in which it says so.
  void Exit(bool clean, const std::string& how) const;

 private:
  SimWorld& world_;
  int64_t process_;
};

class SimProcess {
 public:
  virtual ~SimProcess() = default;
  virtual void OnStart() = 0;
  virtual void OnOpened(int64_t /*stream*/) {}  // somebody's
  virtual void OnMessage(int64_t stream, const std::string& bytes) = 0;
  virtual void OnRoom(int64_t /*stream*/) {}
  virtual void OnClosed(int64_t stream) = 0;
  virtual void OnTimer(int64_t timer) = 0;
};

struct SimExit {
  int64_t process = 0;
  bool clean = false;
  std::string how;
};

class SimWorld {
 public:
  SimWorld(const SimNetworkOptions& options, uint64_t seed);
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  using Make = std::function<std::unique_ptr<SimProcess>(const SimContext& context)>;
  // Begins `delay_ns` from now. Returns the process's number.
  int64_t Start(int32_t host, double delay_ns, const Make& make);
  // Called when a process has ended, some time after it did.
  void set_on_exit(std::function<void(const SimExit&)> on_exit) { on_exit_ = std::move(on_exit); }

  void At(double time_ns, std::function<void()> run) { queue_.Add(time_ns, std::move(run)); }
  double now_ns() const { return queue_.now_ns(); }
  // One event. False: there is none.
  bool Step();
  int64_t events() const { return events_; }
  SimNetwork& network() { return network_; }

  void Kill(int64_t process, const std::string& how);
  // Everything on `host` is gone at once, and nothing says so.
  void LoseHost(int32_t host);
  void Freeze(int64_t process, double until_ns);
  void SlowDown(int64_t process, double factor, double until_ns);
  void SetClockRate(int32_t host, double rate);
  void JumpWallClock(int32_t host, int64_t by_ns);

  bool alive(int64_t process) const;
  bool frozen(int64_t process) const;
  int32_t host(int64_t process) const { return processes_.at(process).host; }

 private:
  friend class SimContext;
  struct Event {
    enum class Kind : uint8_t { kStart, kOpened, kMessage, kRoom, kClosed, kTimer };
    Kind kind = Kind::kStart;
    int64_t id = 0;  // stream or timer
    std::string bytes;
  };
  struct Process {
    int32_t host = 0;
    std::unique_ptr<SimProcess> code;
    bool alive = true;
    double frozen_until_ns = 0;
    double slow_until_ns = 0;
    double slowness = 1;
    Port cpu;  // while it is slow
    std::deque<Event> backlog;
    bool wakes = false;
  };

  SimClock& ClockOf(int32_t host);
  bool Park(int64_t process, const Event& event);
  void Deliver(int64_t process, Event event);
  void Handle(int64_t process, const Event& event);
  void Dispatch(Process* state, const Event& event);
  void Wake(int64_t process);
  void End(int64_t process, const SimExit& exit, bool silent);

  const SimNetworkOptions options_;
  Random random_;
  SimQueue queue_;
  SimNetwork network_;
  std::map<int32_t, SimClock> clocks_;
  std::map<int64_t, Process> processes_;
  std::function<void(const SimExit&)> on_exit_;
  int64_t next_process_ = 1;
  int64_t events_ = 0;
};

}  // namespace lockstep
