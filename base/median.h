// median.h: the middle of measured times, which one slow sample does not move. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"

namespace lockstep {

// The upper of the two middle ones of an even number. REQUIRES: not empty.
inline double MedianOf(std::vector<int64_t> values) {
  CHECK(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return static_cast<double>(*middle);
}

}  // namespace lockstep
