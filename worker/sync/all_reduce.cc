#include "worker/sync/all_reduce.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/numeric/convert.h"
#include "base/status.h"
#include "worker/sync/addition_order.h"

namespace lockstep {
namespace {

// What the optimizer still has to divide by: EXACT divides within the sum.
OptimizerOptions AfterTheSum(const AllReduceOptions& options) {
  OptimizerOptions optimizer = options.optimizer;
  if (options.exact) optimizer.divisor = 1;
  return optimizer;
}

int64_t ElementsOf(const std::vector<NamedTensor>& tensors) {
  return tensors.empty() ? 0 : tensors.back().span.offset + tensors.back().span.count;
}

}  // namespace

AllReduceSynchronizer::AllReduceSynchronizer(std::unique_ptr<Communicator> communicator,
                                             AllReduceOptions options)
    : communicator_(std::move(communicator)),
      options_(std::move(options)),
      exact_(communicator_.get()),
      optimizer_(options_.make_optimizer(AfterTheSum(options_),
                                         contributes() ? ElementsOf(options_.tensors) : 0)) {
  if (!options_.hand_over.has_value()) return;
  const std::vector<float>& kept = options_.hand_over->held.optimizer_state;
  if (!kept.empty()) optimizer_->SetState(kept, options_.hand_over->held.step);
}

// The engine knows ranks, the coordinator knows members. In a group that never shrank rank r is
// worker r, and the ranks after the workers are the servers.
absl::Status AllReduceSynchronizer::BlameMembers(const absl::Status& status) const {
  std::vector<std::string> members = BlamedBy(status);
  if (members.empty()) return status;
  for (std::string& member : members) {
    int rank = 0;
    if (!absl::SimpleAtoi(absl::StripPrefix(member, "rank "), &rank)) continue;
    const int workers = communicator_->contributors();
    if (static_cast<size_t>(rank) < options_.members.size()) {
      member = options_.members[static_cast<size_t>(rank)];
    } else {
      member =
          rank < workers ? absl::StrCat("worker ", rank) : absl::StrCat("server ", rank - workers);
    }
  }
  return Blame(status, members);
}

HeldState AllReduceSynchronizer::Held(int64_t step) const {
  const std::span<const float> state = optimizer_->state();
  return {.step = step, .optimizer_state = {state.begin(), state.end()}};
}

absl::StatusOr<int64_t> AllReduceSynchronizer::Begin(std::span<float> parameters) {
  if (options_.hand_over.has_value()) {
    RETURN_IF_ERROR(
        Annotate(BlameMembers(TakeState(*options_.hand_over, parameters)), "hand-over"));
    return options_.hand_over->step;
  }
  absl::StatusOr<std::optional<LinkCost>> link = communicator_->MeasureLink();
  RETURN_IF_ERROR(Annotate(BlameMembers(link.status()), "measuring the link"));
  facts_.link = *std::move(link);
  facts_.addition_order =
      options_.exact ? kExactOrder : AdditionOrderText(options_.buckets, [this](int64_t count) {
        return communicator_->AdditionOrder(count);
      });
  if (!options_.broadcast_start) return 0;
  RETURN_IF_ERROR(Annotate(
      BlameMembers(communicator_->Broadcast(
          parameters.data(), static_cast<int64_t>(parameters.size()), Dtype::kF32, /*root=*/0)),
      "start values"));
  return 0;
}

// Received beside the worker's own state and taken over at the end: a source that is lost half-way
// leaves everybody with a state of some step, not with parts of two.
absl::Status AllReduceSynchronizer::TakeState(const HandOver& hand_over,
                                              std::span<float> parameters) {
  int64_t step = hand_over.held.step;  // the source's own word, from here on
  RETURN_IF_ERROR(communicator_->Broadcast(&step, 1, Dtype::kI64, hand_over.source));
  if (step != hand_over.step) {
    return absl::InternalError(absl::StrCat("rank ", hand_over.source, " hands over step ", step,
                                            ", the coordinator says ", hand_over.step));
  }
  const std::span<const float> state = optimizer_->state();
  std::vector<float> all(parameters.begin(), parameters.end());
  all.insert(all.end(), state.begin(), state.end());
  RETURN_IF_ERROR(communicator_->Broadcast(all.data(), static_cast<int64_t>(all.size()),
                                           Dtype::kF32, hand_over.source));
  const std::span<const float> taken(all);
  std::copy_n(taken.begin(), parameters.size(), parameters.begin());
  optimizer_->SetState(taken.subspan(parameters.size()), step);
  return absl::OkStatus();
}

absl::Status AllReduceSynchronizer::GradientReady(int64_t step, const Bucket& bucket,
                                                  std::span<float> gradients) {
  RETURN_IF_ERROR(Annotate(BlameMembers(Sum(bucket, gradients.data() + bucket.offset)),
                           absl::StrCat("step ", step, ", bucket ", bucket.index)));
  return options_.exact ? CheckExact(step, bucket) : absl::OkStatus();
}

absl::Status AllReduceSynchronizer::Sum(const Bucket& bucket, float* values) {
  const Dtype wire = options_.wire_dtype;
  void* data = values;
  if (wire != Dtype::kF32) {
    wire_.resize(static_cast<size_t>(bucket.count * SizeOf(wire)));
    data = wire_.data();
    Convert(Dtype::kF32, values, wire, data, bucket.count);
  }
  RETURN_IF_ERROR(options_.exact
                      ? SumExact(bucket, data)
                      : communicator_->AllReduce(data, bucket.count, wire, ReduceOp::kSum));
  if (wire != Dtype::kF32) Convert(wire, data, Dtype::kF32, values, bucket.count);
  return absl::OkStatus();
}

absl::Status AllReduceSynchronizer::SumExact(const Bucket& bucket, void* values) {
  std::vector<int64_t> counts;
  counts.reserve(static_cast<size_t>(bucket.tensors));
  const auto first = options_.tensors.begin() + bucket.first_tensor;
  std::transform(first, first + bucket.tensors, std::back_inserter(counts),
                 [](const NamedTensor& tensor) { return tensor.span.count; });
  return exact_.Run(options_.wire_dtype, contributes() ? values : nullptr, counts,
                    static_cast<double>(options_.optimizer.divisor));
}

// Every rank gets here with the same answer, so all stop at the same step.
absl::Status AllReduceSynchronizer::CheckExact(int64_t step, const Bucket& bucket) const {
  if (exact_.non_finite().empty()) return absl::OkStatus();
  const int tensor = bucket.first_tensor + exact_.non_finite().front();
  return absl::DataLossError(absl::StrCat(
      "step ", step, ": the gradient of ", options_.tensors[static_cast<size_t>(tensor)].name,
      " is not finite in ", NameOf(options_.wire_dtype),
      " on some worker, seen in the sum on rank ", communicator_->rank(),
      "; the worker with the value says so itself, unless it left the range of ",
      NameOf(options_.wire_dtype), ": then use a wider wire_dtype or a lower learning rate"));
}

absl::Status AllReduceSynchronizer::Finish(int64_t /*step*/, std::span<float> gradients,
                                           std::span<float> parameters) {
  return contributes() ? optimizer_->Apply(gradients, parameters) : absl::OkStatus();
}

}  // namespace lockstep
