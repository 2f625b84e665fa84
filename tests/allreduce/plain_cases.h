// plain_cases.h: every collective with every algorithm that it has, for a number of ranks, and
// random input that knows no kindness. For tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "allreduce/schedule/generate.h"
#include "base/numeric/dtype.h"

namespace lockstep {

// `inputs` ranks bring data; spare servers come on top.
inline std::vector<ScheduleSpec> AllReduceSpecs(int inputs) {
  std::vector<ScheduleSpec> specs;
  for (const Algorithm algorithm : kAlgorithms) {
    if (algorithm == Algorithm::kPsExchange) continue;
    specs.push_back({.algorithm = algorithm, .world_size = inputs});
    specs.push_back({.algorithm = algorithm, .world_size = inputs, .channels = 2});
  }
  const auto servers = [&](Placement placement, int count) {
    const int spare = placement == Placement::kColocated ? 0 : count;
    specs.push_back({.algorithm = Algorithm::kPsExchange,
                     .world_size = inputs + spare,
                     .servers = count,
                     .placement = placement});
  };
  servers(Placement::kSpare, 1);
  servers(Placement::kSpare, 3);
  servers(Placement::kColocated, 1);
  if (inputs > 2) servers(Placement::kColocated, 2);
  servers(Placement::kSplit, 1);
  if (inputs > 1) servers(Placement::kSplit, 2);
  return specs;
}

inline std::vector<ScheduleSpec> OtherSpecs(int n) {
  std::vector<ScheduleSpec> specs;
  for (const Collective collective : kCollectives) {
    if (collective == Collective::kAllReduce) continue;
    const bool rooted = collective == Collective::kReduce || collective == Collective::kBroadcast;
    for (const Algorithm algorithm : AlgorithmsOf(collective)) {
      for (int root = 0; root < (rooted ? n : 1); root += std::max(1, n - 1)) {
        specs.push_back(
            {.collective = collective, .algorithm = algorithm, .world_size = n, .root = root});
      }
    }
  }
  return specs;
}

// "RingAllReduce5", "Ps_exchangeAllReduce5Servers2Split".
inline std::string NameOf(const ScheduleSpec& spec) {
  std::string name =
      absl::StrCat(NameOf(spec.collective), "_", NameOf(spec.algorithm), "_", spec.world_size);
  if (spec.channels > 1) absl::StrAppend(&name, "_channels_", spec.channels);
  if (spec.servers > 0) {
    absl::StrAppend(&name, "_servers_", spec.servers, "_", NameOf(spec.placement));
  }
  if (spec.root > 0) absl::StrAppend(&name, "_root_", spec.root);
  return name;
}

// Any bits: integers of any size, floats of any exponent, infinities and NaNs.
inline std::vector<std::byte> AnyBits(uint64_t seed, Dtype dtype, int64_t count) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(static_cast<size_t>(count * SizeOf(dtype)));
  for (size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
    const uint64_t bits = random();
    std::memcpy(bytes.data() + i, &bits, std::min(sizeof(bits), bytes.size() - i));
  }
  return bytes;
}

}  // namespace lockstep
