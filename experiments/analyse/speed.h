// speed.h: which variant is faster, as far as the blocks can tell.
// Blocks that every variant finished are paired; every pair of variants is tested by a paired
// t-interval on log ratios of samples/s, Holm over all pairs: all, because the best is chosen
// after looking. The claim is about the two fastest. Pure.
#pragma once

#include <vector>

#include "experiments/analyse/statistics.h"
#include "proto/record.pb.h"

namespace lockstep {

inline constexpr double kSpeedAlpha = 0.05;
inline constexpr double kPracticalRatio = 1.03;  // below it nobody would change a setting
inline constexpr int kSureBlocks = 5;  // with fewer, an interval misses true differences too often

enum class Speed {
  kUndecided,  // fewer than two variants, or than two common blocks
  kFaster,     // the interval excludes 1, and the ratio is above kPracticalRatio
  kEqual,      // a difference below kPracticalRatio is shown, or the whole interval lies within it
  kUnclear,    // neither
};

struct SpeedComparison {
  Speed claim = Speed::kUndecided;
  const VariantResult* first = nullptr;   // larger geometric mean; set when `claim` is decided
  const VariantResult* second = nullptr;  // the next
  RatioInterval interval;                 // of first over second, at Holm's level for this pair
  int blocks = 0;                         // common to all variants
};

// REQUIRES: the variants outlive the result.
SpeedComparison CompareSpeed(const std::vector<const VariantResult*>& variants);

}  // namespace lockstep
