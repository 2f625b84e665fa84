#include "ps_server/core/staleness.h"
#include "ps_server/core/update_policy.h"

namespace lockstep {
namespace {

class Async final : public UpdatePolicy {
 public:
  explicit Async(int32_t world_size) : staleness_(world_size) {}

  std::vector<int32_t> Due(const std::vector<ShardWorker>& workers) const override {
    for (size_t r = 0; r < workers.size(); ++r) {
      if (workers[r].staging.complete()) return {static_cast<int32_t>(r)};
    }
    return {};
  }
  std::vector<int32_t> AwaitedBy(int32_t worker,
                                 const std::vector<ShardWorker>& /*workers*/) const override {
    return {worker};
  }
  bool AllWaitTogether() const override { return false; }

  void OnRead(int32_t worker, int64_t version, int64_t least_step, int64_t now_ns) override {
    staleness_.Read(worker, version, least_step, now_ns);
  }
  void OnApply(int64_t now_ns, ShardUpdate* update) override {
    update->worker = update->ids.front().worker;
    update->staleness = staleness_.Apply(*update->worker, update->ids.front().step, now_ns);
  }
  std::vector<StalenessMark> Save() const override { return staleness_.Save(); }
  void Restore(const std::vector<StalenessMark>& marks) override { staleness_.Restore(marks); }

 private:
  StalenessMeter staleness_;
};

}  // namespace

std::unique_ptr<UpdatePolicy> MakeAsync(int32_t world_size) {
  return std::make_unique<Async>(world_size);
}

}  // namespace lockstep
