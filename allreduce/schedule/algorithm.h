// algorithm.h: the names of the ways to run a collective; each has a generator beside this file.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep {

enum class Algorithm : uint8_t {
  kRing = 0,
  kNaive = 1,
  kTree = 2,
  kPsExchange = 3,
  kStar = 4,
  kDoubleTree = 5,
  kHalvingDoubling = 6,
  kDirect = 7,
  kHierarchical = 8,
  kRecursiveDoubling = 9,
  kAuto = 10,  // no generator: choose.h picks one of the others for each size
};

inline constexpr std::array kAlgorithms = {
    Algorithm::kRing,
    Algorithm::kNaive,
    Algorithm::kTree,
    Algorithm::kPsExchange,
    Algorithm::kStar,
    Algorithm::kDoubleTree,
    Algorithm::kHalvingDoubling,
    Algorithm::kDirect,
    Algorithm::kHierarchical,
    Algorithm::kRecursiveDoubling,
};

// The field's words, as in the spec but in lower case: "ring", "halving_doubling".
const char* NameOf(Algorithm algorithm);
std::optional<Algorithm> AlgorithmNamed(std::string_view name);  // kAuto included

enum class Collective : uint8_t {
  kAllReduce = 0,
  kReduce = 1,
  kBroadcast = 2,
  kReduceScatter = 3,
  kAllGather = 4,
  kBarrier = 5,
};

inline constexpr std::array kCollectives = {
    Collective::kAllReduce,     Collective::kReduce,    Collective::kBroadcast,
    Collective::kReduceScatter, Collective::kAllGather, Collective::kBarrier,
};

const char* NameOf(Collective collective);  // "all_reduce", "reduce_scatter"
std::optional<Collective> CollectiveNamed(std::string_view name);

// kPsExchange: who sums. kSpare: the last `servers` ranks, which have no input. kColocated: ranks
// [0, servers) beside their own input. kSplit: the last `servers` ranks and every worker, with the
// shares that load all links alike (ps_exchange.h).
enum class Placement : uint8_t { kSpare = 0, kColocated = 1, kSplit = 2 };
const char* NameOf(Placement placement);  // "spare"

}  // namespace lockstep
