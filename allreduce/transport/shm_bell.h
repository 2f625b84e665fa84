// shm_bell.h: how a rank sleeps until a peer has something for it: a futex in shared memory, rung
// only when somebody sleeps, so that a call in which nobody does makes no system call. A rank has
// one bell for everything it may wait for. Lost wake-ups: the sleeper says that it sleeps and looks
// once more; who rings stores first and then looks for sleepers; all sequentially consistent.
// Threads: Sleep by the owner alone, Ring by anybody.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "base/clock.h"

namespace lockstep {

struct ShmBell {
  std::atomic<uint32_t> rings{0};  // the futex
  std::atomic<uint32_t> sleeping{0};

  // Returns when rung, after `time_ns`, or at once if ready().
  void Sleep(absl::FunctionRef<bool()> ready, int64_t time_ns);
  void Ring() {
    if (sleeping.load() != 0) Wake();
  }

 private:
  void Wake();
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "the kernel reads it as such");

// Time passes while a wait hopes to be short: at first without leaving the core, if every rank of
// the group can have one; then by giving the core away, which may take a time slice of somebody
// else's where the machine has other work. False: it is time to look around, and to sleep.
class SpinWait {
 public:
  // `clock` must outlive it.
  SpinWait(bool crowded, const Clock& clock) : crowded_(crowded), clock_(clock) {}
  bool Turn();
  void Reset() { turns_ = 0; }

 private:
  bool Yield();

  bool crowded_;  // more ranks than cores: whoever we wait for needs ours
  const Clock& clock_;
  int turns_ = 0;
  int64_t since_ns_ = 0;  // of the first yield
};

// Cores that this process may use.
int AllowedCores();
// Puts the calling thread on the rank's share of them, once, without binding it: ranks wake each
// other up onto one core while they connect, and threads that yield instead of sleeping stay there.
void MoveToCoreOf(int rank);

}  // namespace lockstep
