// gradient_check.h: is a bucket's gradient finite? Looked at on the worker that computed it, before
// anybody else can see it: after a sum nobody could tell whose it was. Pure.
// Errors: DataLoss, with step, tensor, element, value, worker and what to do.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "worker/bucket/bucket.h"

namespace lockstep {

struct GradientOwner {
  int64_t step = 0;
  int worker = 0;
};

// `tensors` tile the arena `gradients`, of which `bucket` is a slice.
absl::Status CheckFinite(const GradientOwner& owner, const std::vector<NamedTensor>& tensors,
                         const Bucket& bucket, std::span<const float> gradients);

}  // namespace lockstep
