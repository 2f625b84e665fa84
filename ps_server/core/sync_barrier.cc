#include "ps_server/core/update_policy.h"

namespace lockstep {
namespace {

class SyncBarrier final : public UpdatePolicy {
 public:
  std::vector<int32_t> Due(const std::vector<ShardWorker>& workers) const override {
    std::vector<int32_t> all;
    if (!AwaitedBy(0, workers).empty()) return all;
    for (size_t r = 0; r < workers.size(); ++r) {
      if (workers[r].present) all.push_back(static_cast<int32_t>(r));
    }
    return all;
  }
  std::vector<int32_t> AwaitedBy(int32_t /*worker*/,
                                 const std::vector<ShardWorker>& workers) const override {
    std::vector<int32_t> awaited;
    for (size_t r = 0; r < workers.size(); ++r) {
      const bool here = !workers[r].present || workers[r].staging.complete();
      if (!here) awaited.push_back(static_cast<int32_t>(r));
    }
    return awaited;
  }
  bool AllWaitTogether() const override { return true; }
  bool OneVersionPerStep() const override { return true; }
};

}  // namespace

std::unique_ptr<UpdatePolicy> MakeSyncBarrier() { return std::make_unique<SyncBarrier>(); }

}  // namespace lockstep
