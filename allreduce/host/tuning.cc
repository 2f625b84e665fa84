#include "allreduce/host/tuning.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"

namespace lockstep {
namespace {

// The least size of the class: a power of two, or none at all.
int64_t ClassOf(int64_t bytes) {
  CHECK_GE(bytes, 0);
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes)));
}

}  // namespace

void Tuning::Learn(const CostModel& cost) {
  cost_ = cost;
  choices_.clear();
}

Choice Tuning::Choose(int64_t bytes) const {
  CHECK(cost_.has_value());
  return ChooseAlgorithm(world_size_, ClassOf(bytes), *cost_, tile_bytes_);
}

Algorithm Tuning::For(int64_t bytes) {
  const int64_t least = ClassOf(bytes);
  const auto known = choices_.find(least);
  if (known != choices_.end()) return known->second;
  return choices_.emplace(least, Choose(bytes).algorithm()).first->second;
}

std::string Tuning::Why(int64_t bytes) const {
  if (!cost_.has_value()) return "auto: nothing measured yet, the first all_reduce does";
  const int64_t least = ClassOf(bytes);
  const Choice choice = Choose(bytes);
  const bool crowd = cost_->crowd_message_ns > 0;
  return absl::StrFormat(
      "auto: %s for %d..%d bytes on %d ranks (latency %.2f us, overhead %.2f us, %.3f ns/B moved, "
      "%.3f ns/B reduced%s): %s",
      NameOf(choice.algorithm()), least, std::max<int64_t>(0, 2 * least - 1), world_size_,
      cost_->latency_ns / 1e3, cost_->overhead_ns / 1e3, cost_->beta_ns_per_byte,
      cost_->gamma_ns_per_byte,
      crowd ? absl::StrFormat("; sharing cores: %.2f us a message, %.3f ns/B",
                              cost_->crowd_message_ns / 1e3, cost_->crowd_ns_per_byte)
            : "",
      choice.Why());
}

}  // namespace lockstep
