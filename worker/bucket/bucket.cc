#include "worker/bucket/bucket.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep {
namespace {

constexpr int64_t kElementBytes = 4;

void CheckTiling(const std::vector<TensorSpan>& tensors) {
  int64_t end = 0;
  for (const TensorSpan& tensor : tensors) {
    CHECK_EQ(tensor.offset, end) << "tensors must follow each other without gaps";
    CHECK_GE(tensor.count, 0);
    end += tensor.count;
  }
}

}  // namespace

std::vector<Bucket> MakeBuckets(const std::vector<TensorSpan>& tensors, int64_t cap_bytes) {
  CHECK_GT(cap_bytes, 0);
  CheckTiling(tensors);
  std::vector<Bucket> buckets;
  int64_t limit_bytes = 0;  // of the bucket being filled; 0: there is none yet
  for (size_t left = tensors.size(); left > 0; --left) {
    const TensorSpan& tensor = tensors[left - 1];
    const int64_t before = buckets.empty() ? 0 : buckets.back().count;
    // Neither an empty tensor nor an empty bucket is worth an exchange of its own.
    const bool full =
        before > 0 && tensor.count > 0 && (before + tensor.count) * kElementBytes > limit_bytes;
    if (buckets.empty() || full) {
      limit_bytes = buckets.empty() ? std::min(kFirstBucketBytes, cap_bytes) : cap_bytes;
      const auto index = static_cast<int>(buckets.size());
      buckets.push_back({.index = index, .offset = tensor.offset + tensor.count});
    }
    Bucket& bucket = buckets.back();
    bucket.offset = tensor.offset;
    bucket.count += tensor.count;
    bucket.first_tensor = static_cast<int>(left - 1);
    ++bucket.tensors;
  }
  return buckets;
}

}  // namespace lockstep
