#include "ps_server/core/update_policy.h"

#include <algorithm>
#include <limits>

namespace lockstep {

int64_t LeastStep(const std::vector<ShardWorker>& workers) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const ShardWorker& worker : workers) {
    if (worker.present) least = std::min(least, worker.last_step);
  }
  return least == std::numeric_limits<int64_t>::max() ? 0 : least;
}

}  // namespace lockstep
