#include "allreduce/schedule/algorithm.h"

#include <algorithm>

namespace lockstep {
namespace {

template <typename Values>
auto Named(const Values& values, std::string_view name)
    -> std::optional<typename Values::value_type> {
  const auto it = std::find_if(values.begin(), values.end(),
                               [&](const auto value) { return NameOf(value) == name; });
  if (it == values.end()) return std::nullopt;
  return *it;
}

}  // namespace

const char* NameOf(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kRing:
      return "ring";
    case Algorithm::kNaive:
      return "naive";
    case Algorithm::kTree:
      return "tree";
    case Algorithm::kPsExchange:
      return "ps_exchange";
    case Algorithm::kStar:
      return "star";
    case Algorithm::kDoubleTree:
      return "double_tree";
    case Algorithm::kHalvingDoubling:
      return "halving_doubling";
    case Algorithm::kDirect:
      return "direct";
    case Algorithm::kHierarchical:
      return "hierarchical";
    case Algorithm::kRecursiveDoubling:
      return "recursive_doubling";
    case Algorithm::kAuto:
      return "auto";
  }
  return "unknown algorithm";
}

std::optional<Algorithm> AlgorithmNamed(std::string_view name) {
  if (name == NameOf(Algorithm::kAuto)) return Algorithm::kAuto;
  return Named(kAlgorithms, name);
}

const char* NameOf(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return "all_reduce";
    case Collective::kReduce:
      return "reduce";
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kReduceScatter:
      return "reduce_scatter";
    case Collective::kAllGather:
      return "all_gather";
    case Collective::kBarrier:
      return "barrier";
  }
  return "unknown collective";
}

std::optional<Collective> CollectiveNamed(std::string_view name) {
  return Named(kCollectives, name);
}

const char* NameOf(Placement placement) {
  switch (placement) {
    case Placement::kSpare:
      return "spare";
    case Placement::kColocated:
      return "colocated";
    case Placement::kSplit:
      return "split";
  }
  return "unknown placement";
}

}  // namespace lockstep
