#include "worker/gradient_check.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/numeric/finite.h"

namespace lockstep {
namespace {

const char* NameOfNonFinite(float value) {
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

}  // namespace

absl::Status CheckFinite(const GradientOwner& owner, const std::vector<NamedTensor>& tensors,
                         const Bucket& bucket, std::span<const float> gradients) {
  const int64_t first = FirstNonFinite(gradients.data() + bucket.offset, bucket.count);
  if (first < 0) return absl::OkStatus();
  const int64_t element = bucket.offset + first;
  auto tensor = static_cast<size_t>(bucket.first_tensor);
  while (element >= tensors[tensor].span.offset + tensors[tensor].span.count) ++tensor;
  return absl::DataLossError(absl::StrCat(
      "step ", owner.step, ": the gradient of ", tensors[tensor].name, " is not finite (",
      NameOfNonFinite(gradients[static_cast<size_t>(element)]), " at element ",
      element - tensors[tensor].span.offset, ") on worker ", owner.worker,
      "; it was not sent: lower train.optimizer.sgd.learning_rate, or look for values in the data "
      "that are not finite or very large"));
}

}  // namespace lockstep
