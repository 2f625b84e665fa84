#include <algorithm>

#include "ps_server/core/update_policy.h"

namespace lockstep {
namespace {

class KOfN final : public UpdatePolicy {
 public:
  explicit KOfN(const PsRules& rules)
      : k_(rules.k), steps_(rules.steps), apply_late_(rules.apply_late) {}

  std::vector<int32_t> Due(const std::vector<ShardWorker>& workers) const override {
    std::vector<int32_t> here;
    std::vector<int32_t> late;
    int64_t fresh = 0;
    int64_t able = 0;  // have a push of this round staged, or can still make one
    for (size_t r = 0; r < workers.size(); ++r) {
      const ShardWorker& worker = workers[r];
      if (!AtWork(worker)) continue;
      const bool whole = worker.staging.complete();
      const bool is_late = whole && worker.late;
      if (whole) here.push_back(static_cast<int32_t>(r));
      if (is_late) late.push_back(static_cast<int32_t>(r));
      if (whole && !is_late) ++fresh;
      const bool is_last = steps_ > 0 && worker.last_step + 1 == steps_;
      if (!is_late || !is_last) ++able;
    }
    // Where a worker's last push is late and was all that the round waited for, it goes with it.
    return fresh >= std::min<int64_t>(k_, able) ? here : late;
  }
  bool Drops(const ShardWorker& worker) const override { return worker.late && !apply_late_; }
  std::vector<int32_t> AwaitedBy(int32_t /*worker*/,
                                 const std::vector<ShardWorker>& workers) const override {
    std::vector<int32_t> awaited;
    for (size_t r = 0; r < workers.size(); ++r) {
      const bool awaits = AtWork(workers[r]) && !workers[r].staging.complete();
      if (awaits) awaited.push_back(static_cast<int32_t>(r));
    }
    return awaited;
  }
  bool AllWaitTogether() const override { return true; }

 private:
  bool AtWork(const ShardWorker& worker) const {
    return worker.present && !worker.redoes && (steps_ == 0 || worker.last_step < steps_);
  }

  const int64_t k_;
  const int64_t steps_;
  const bool apply_late_;
};

}  // namespace

std::unique_ptr<UpdatePolicy> MakeKOfN(const PsRules& rules) {
  return std::make_unique<KOfN>(rules);
}

}  // namespace lockstep
