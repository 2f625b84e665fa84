#include "ps_server/core/update_policy.h"

namespace lockstep {
namespace {

// ASYNC with a gate before each read.
class Bounded final : public UpdatePolicy {
 public:
  Bounded(int32_t world_size, int64_t staleness)
      : async_(MakeAsync(world_size)), staleness_(staleness) {}

  std::vector<int32_t> Due(const std::vector<ShardWorker>& workers) const override {
    return async_->Due(workers);
  }
  bool MayRead(int64_t step, int64_t least_step) const override {
    return least_step >= step - staleness_;
  }
  std::vector<int32_t> AwaitedBy(int32_t worker,
                                 const std::vector<ShardWorker>& workers) const override {
    const ShardWorker& waiting = workers[static_cast<size_t>(worker)];
    if (!waiting.pull.has_value() || waiting.pull->step > waiting.last_step) return {worker};
    std::vector<int32_t> awaited;
    for (size_t r = 0; r < workers.size(); ++r) {
      const bool far_enough = MayRead(waiting.pull->step, workers[r].last_step);
      if (workers[r].present && !far_enough) awaited.push_back(static_cast<int32_t>(r));
    }
    return awaited;
  }
  bool AllWaitTogether() const override { return false; }
  bool OneVersionPerStep() const override { return staleness_ == 0; }

  void OnRead(int32_t worker, int64_t version, int64_t least_step, int64_t now_ns) override {
    async_->OnRead(worker, version, least_step, now_ns);
  }
  void OnApply(int64_t now_ns, ShardUpdate* update) override { async_->OnApply(now_ns, update); }
  std::vector<StalenessMark> Save() const override { return async_->Save(); }
  void Restore(const std::vector<StalenessMark>& marks) override { async_->Restore(marks); }

 private:
  const std::unique_ptr<UpdatePolicy> async_;
  const int64_t staleness_;  // clocks
};

}  // namespace

std::unique_ptr<UpdatePolicy> MakeBounded(int32_t world_size, int64_t staleness) {
  return std::make_unique<Bounded>(world_size, staleness);
}

}  // namespace lockstep
