#include "allreduce/transport/shm_bell.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace lockstep {
namespace {

// A pause is some 50 ns and costs the other side nothing; a few cover a cache line's way to another
// core and back.
constexpr int kPauses = 8;
// A sleeper is woken 35-40 us late, a yielding thread isn't; past some 100 us sleeping is no loss.
constexpr int kYields = 200;
// All of them together, on a machine where others keep the core: peers are not heard meanwhile.
constexpr int64_t kYieldNsMax = 5 * kNsPerMs;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void ShmBell::Sleep(absl::FunctionRef<bool()> ready, int64_t time_ns) {
  const uint32_t heard = rings.load();
  sleeping.store(1);
  if (!ready()) {
    const timespec time{time_ns / kNsPerSecond, time_ns % kNsPerSecond};
    // Not the private kind: the sleepers' and ringers' processes differ. Any return means: look.
    syscall(SYS_futex, &rings, FUTEX_WAIT, heard, &time, nullptr, 0);
  }
  sleeping.store(0);
}

void ShmBell::Wake() {
  if (sleeping.exchange(0) == 0) return;
  rings.fetch_add(1);
  syscall(SYS_futex, &rings, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

bool SpinWait::Turn() {
  if (turns_ >= kPauses + kYields) return false;
  if (turns_ == 0 && crowded_) turns_ = kPauses;
  if (turns_++ >= kPauses) return Yield();
  Pause();
  return true;
}

bool SpinWait::Yield() {
  const int64_t now_ns = clock_.NowNs();
  if (turns_ == kPauses + 1) since_ns_ = now_ns;
  if (now_ns - since_ns_ >= kYieldNsMax) return false;
  sched_yield();
  return true;
}

int AllowedCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return 1;
  return CPU_COUNT(&cores);
}

void MoveToCoreOf(int rank) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return;
  int skip = rank % CPU_COUNT(&cores);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &cores) || skip-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    // A hint: where it fails, the thread stays where it is.
    if (sched_setaffinity(0, sizeof(one), &one) == 0) sched_setaffinity(0, sizeof(cores), &cores);
    return;
  }
}

}  // namespace lockstep
