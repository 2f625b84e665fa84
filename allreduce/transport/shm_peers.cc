#include "allreduce/transport/shm_peers.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace lockstep {
namespace {

// Peers ring, so a slice only bounds how late a death or an abort is noticed.
constexpr int64_t kFirstSliceNs = kNsPerMs / 2;
constexpr int64_t kLastSliceNs = 16 * kNsPerMs;

int64_t SliceNs(int sleeps) {
  const int doublings = std::min(sleeps, 10);
  return std::min(kFirstSliceNs << doublings, kLastSliceNs);
}

}  // namespace

ShmPeers::ShmPeers(int rank, std::vector<ShmBell*> bells, TcpControls controls, const Clock& clock,
                   const Abort& abort)
    : rank_(rank),
      bells_(std::move(bells)),
      controls_(std::move(controls)),
      clock_(clock),
      abort_(abort),
      crowded_(world_size() > AllowedCores()) {}

void ShmPeers::WakeAll() {
  for (int peer = 0; peer < world_size(); ++peer) {
    if (peer != rank_) bell(peer)->Ring();
  }
}

absl::Status ShmPeers::Look(absl::FunctionRef<bool(int peer)> wanted) {
  RETURN_IF_ERROR(abort_.status());
  controls_.Look();
  for (int peer = 0; peer < world_size(); ++peer) {
    if (peer != rank_ && controls_.peers()[static_cast<size_t>(peer)].left && wanted(peer)) {
      controls_.Want(peer);
    }
  }
  return controls_.PeerError();
}

void ShmPeers::Sleep(absl::FunctionRef<bool()> ready, int sleeps, int64_t deadline_ns) {
  const int64_t left_ns = std::max<int64_t>(0, deadline_ns - clock_.NowNs());
  bell(rank_)->Sleep(ready, std::min(SliceNs(sleeps), left_ns));
}

}  // namespace lockstep
