// bits.h: which variants ended with the same bits, and which of them had promised to.
// Compared are the parameters after the last step of the first seed, among complete synchronous
// variants with the same number of workers. Promised equal: variants whose sums are made by the
// same additions (SetUp.addition_order), and all of them under EXACT, whose sums do not depend on
// any order. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "proto/record.pb.h"

namespace lockstep {

// Variants that ended with one hash, in the order given; groups by their first variant.
// REQUIRES: the variants outlive the result.
using BitsGroup = std::vector<const VariantResult*>;
std::vector<BitsGroup> GroupByBits(const std::vector<const VariantResult*>& variants);

bool IsExact(const RunFile& run);

struct BitsConflict {
  const VariantResult* first = nullptr;
  const VariantResult* second = nullptr;
};
// The first two variants that promised the same bits and ended with others. REQUIRES: `run`
// outlives the result.
std::optional<BitsConflict> FindBitsConflict(const RunFile& run);

}  // namespace lockstep
