#include "worker/sync/all_reduce.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"

namespace lockstep {
namespace {

// The engine knows ranks, the coordinator knows members: rank r is worker r.
absl::Status BlameWorkers(const absl::Status& status) {
  std::vector<std::string> members = BlamedBy(status);
  if (members.empty()) return status;
  for (std::string& member : members) {
    member = absl::StrCat("worker ", absl::StripPrefix(member, "rank "));
  }
  return Blame(status, members);
}

}  // namespace

absl::Status AllReduceSynchronizer::Begin(std::span<float> parameters) {
  return Annotate(
      BlameWorkers(communicator_->Broadcast(
          parameters.data(), static_cast<int64_t>(parameters.size()), Dtype::kF32, /*root=*/0)),
      "start values");
}

absl::Status AllReduceSynchronizer::GradientReady(int64_t step, const Bucket& bucket,
                                                  std::span<float> gradients) {
  return Annotate(BlameWorkers(communicator_->AllReduce(gradients.data() + bucket.offset,
                                                        bucket.count, Dtype::kF32, ReduceOp::kSum)),
                  absl::StrCat("step ", step, ", bucket ", bucket.index));
}

absl::Status AllReduceSynchronizer::Finish(int64_t /*step*/, std::span<float> gradients,
                                           std::span<float> parameters) {
  sgd_.Apply(gradients, parameters);
  return absl::OkStatus();
}

}  // namespace lockstep
