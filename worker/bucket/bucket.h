// bucket.h: gradients synchronised together. A bucket is a slice of the flat arena, in the order in
// which backward fills it (reverse layer order): the first at most 1 MB, the others at most `cap`,
// whole tensors only, a tensor above the cap alone (as PyTorch DDP's reducer). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

// A parameter tensor in the flat space, in forward order.
struct TensorSpan {
  int64_t offset = 0;  // elements
  int64_t count = 0;
};
struct NamedTensor {
  std::string name;  // "linear0.weight"
  TensorSpan span;
};

struct Bucket {
  int index = 0;
  int64_t offset = 0;  // in elements; buckets tile the arena from its end to its start
  int64_t count = 0;
  int first_tensor = 0;  // the bucket is ready once backward has passed this tensor
  int tensors = 0;       // first_tensor and those that follow it
};

inline constexpr int64_t kFirstBucketBytes = 1 << 20;

// `tensors` tile the arena in forward order. `cap_bytes` > 0; elements are 4 bytes.
std::vector<Bucket> MakeBuckets(const std::vector<TensorSpan>& tensors, int64_t cap_bytes);

}  // namespace lockstep
