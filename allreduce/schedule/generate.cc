#include "allreduce/schedule/generate.h"

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allreduce/schedule/assemble.h"
#include "allreduce/schedule/barrier.h"
#include "allreduce/schedule/direct.h"
#include "allreduce/schedule/double_tree.h"
#include "allreduce/schedule/halving_doubling.h"
#include "allreduce/schedule/hierarchical.h"
#include "allreduce/schedule/naive.h"
#include "allreduce/schedule/ps_exchange.h"
#include "allreduce/schedule/recursive_doubling.h"
#include "allreduce/schedule/ring.h"
#include "allreduce/schedule/rooted.h"
#include "allreduce/schedule/star.h"
#include "allreduce/schedule/tree.h"

namespace lockstep {
namespace {

constexpr std::array kRooted = {Algorithm::kTree, Algorithm::kRing, Algorithm::kStar};
constexpr std::array kSpreading = {Algorithm::kRing, Algorithm::kTree, Algorithm::kStar};
constexpr std::array kHalves = {Algorithm::kRing, Algorithm::kDirect};
constexpr std::array kMeeting = {Algorithm::kRecursiveDoubling};

std::string Title(const ScheduleSpec& spec) {
  if (spec.collective == Collective::kAllReduce) return NameOf(spec.algorithm);
  return absl::StrCat(NameOf(spec.algorithm), " ", NameOf(spec.collective));
}

absl::Status CheckPair(const ScheduleSpec& spec) {
  const std::span<const Algorithm> there_are = AlgorithmsOf(spec.collective);
  if (std::find(there_are.begin(), there_are.end(), spec.algorithm) != there_are.end()) {
    return absl::OkStatus();
  }
  const auto name = [](std::string* out, Algorithm algorithm) { out->append(NameOf(algorithm)); };
  return absl::InvalidArgumentError(absl::StrCat("no schedule for ", NameOf(spec.collective),
                                                 " by ", NameOf(spec.algorithm), "; there is ",
                                                 absl::StrJoin(there_are, ", ", name)));
}

// A setting that changes nothing is a mistake.
absl::Status CheckUnused(const ScheduleSpec& spec) {
  const auto unused = [&](const char* what, int32_t value) {
    return absl::InvalidArgumentError(
        absl::StrCat(Title(spec), ": has no ", what, ", was given ", value, "; leave it at 0"));
  };
  if (spec.algorithm != Algorithm::kPsExchange) {
    if (spec.servers != 0) return unused("servers", spec.servers);
    if (spec.placement != Placement::kSpare) {
      return absl::InvalidArgumentError(
          absl::StrCat(Title(spec), ": has no servers to place ", NameOf(spec.placement)));
    }
  }
  const bool rooted =
      spec.collective == Collective::kReduce || spec.collective == Collective::kBroadcast;
  if (!rooted && spec.root != 0) return unused("root", spec.root);
  if (spec.algorithm != Algorithm::kHierarchical && spec.group_size != 0) {
    return unused("group_size", spec.group_size);
  }
  if (spec.collective == Collective::kBarrier && spec.channels != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(Title(spec), ": channels ", spec.channels, " must be 1, it moves no data"));
  }
  return absl::OkStatus();
}

TreeForm FormOf(Algorithm algorithm) {
  if (algorithm == Algorithm::kRing) return TreeForm::kChain;
  return algorithm == Algorithm::kStar ? TreeForm::kFan : TreeForm::kHeap;
}

int32_t ChunksPerChannel(TreeForm form) {
  if (form == TreeForm::kFan) return 1;  // nobody passes anything on
  return form == TreeForm::kChain ? kChainChunksPerChannel : kTreeChunksPerChannel;
}

HierarchicalSpec HierarchicalOf(const ScheduleSpec& spec) {
  const bool natural = spec.group_size == 0 && spec.world_size >= 1;
  return {.world_size = spec.world_size,
          .group_size = natural ? NaturalGroupSize(spec.world_size) : spec.group_size,
          .channels = spec.channels};
}

PsExchangeSpec PsExchangeOf(const ScheduleSpec& spec) {
  const bool among_workers = spec.placement == Placement::kColocated;
  return {.workers = spec.world_size - (among_workers ? 0 : spec.servers),
          .servers = spec.servers,
          .channels = spec.channels,
          .placement = spec.placement};
}

// use(generator, its spec)
template <typename Result, typename Use>
absl::StatusOr<Result> WithAllReduce(const ScheduleSpec& spec, const Use& use) {
  const int32_t n = spec.world_size;
  const int32_t channels = spec.channels;
  switch (spec.algorithm) {
    case Algorithm::kRing:
      return use(Generator<RingSpec>{RingShape, RingLanes}, {n, channels});
    case Algorithm::kNaive:
      return use(Generator<NaiveSpec>{NaiveShape, NaiveLanes}, {n, channels});
    case Algorithm::kTree:
      return use(Generator<TreeSpec>{TreeShape, TreeLanes}, {n, channels, kTreeChunksPerChannel});
    case Algorithm::kPsExchange:
      return use(Generator<PsExchangeSpec>{PsExchangeShape, PsExchangeLanes}, PsExchangeOf(spec));
    case Algorithm::kStar:
      return use(Generator<StarSpec>{StarShape, StarLanes}, {n, channels});
    case Algorithm::kDoubleTree:
      return use(Generator<DoubleTreeSpec>{DoubleTreeShape, DoubleTreeLanes},
                 {n, channels, kTreeChunksPerChannel});
    case Algorithm::kHalvingDoubling:
      return use(Generator<HalvingDoublingSpec>{HalvingDoublingShape, HalvingDoublingLanes},
                 {n, channels});
    case Algorithm::kDirect:
      return use(Generator<DirectSpec>{DirectShape, DirectLanes}, {n, channels});
    case Algorithm::kHierarchical:
      return use(Generator<HierarchicalSpec>{HierarchicalShape, HierarchicalLanes},
                 HierarchicalOf(spec));
    case Algorithm::kRecursiveDoubling:
      return use(Generator<RecursiveDoublingSpec>{RecursiveDoublingShape, RecursiveDoublingLanes},
                 {n, channels});
    case Algorithm::kAuto:
      break;  // CheckPair has refused it
  }
  return absl::InternalError(absl::StrCat("no generator for ", NameOf(spec.algorithm)));
}

template <typename Result, typename Use>
absl::StatusOr<Result> WithGenerator(const ScheduleSpec& spec, const Use& use) {
  RETURN_IF_ERROR(CheckPair(spec));
  RETURN_IF_ERROR(CheckUnused(spec));
  const int32_t n = spec.world_size;
  const TreeForm form = FormOf(spec.algorithm);
  switch (spec.collective) {
    case Collective::kAllReduce:
      return WithAllReduce<Result>(spec, use);
    case Collective::kReduce:
    case Collective::kBroadcast:
      return use(Generator<RootedSpec>{RootedShape, RootedLanes},
                 {n, spec.root, ChunksPerChannel(form), spec.channels, form, spec.collective});
    case Collective::kReduceScatter:
    case Collective::kAllGather:
      if (spec.algorithm == Algorithm::kDirect) {
        return use(Generator<DirectSpec>{DirectShape, DirectLanes},
                   {n, spec.channels, spec.collective});
      }
      return use(Generator<RingSpec>{RingShape, RingLanes}, {n, spec.channels, spec.collective});
    case Collective::kBarrier:
      return use(Generator<BarrierSpec>{BarrierShape, BarrierLanes}, {n});
  }
  return absl::InternalError(absl::StrCat("no generator for ", NameOf(spec.collective)));
}

}  // namespace

std::span<const Algorithm> AlgorithmsOf(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return kAlgorithms;
    case Collective::kReduce:
      return kRooted;
    case Collective::kBroadcast:
      return kSpreading;
    case Collective::kReduceScatter:
    case Collective::kAllGather:
      return kHalves;
    case Collective::kBarrier:
      return kMeeting;
  }
  return {};
}

int32_t LinkChannelsOf(const ScheduleSpec& spec) {
  if (spec.collective != Collective::kAllReduce) return spec.channels;
  const bool split =
      spec.algorithm == Algorithm::kPsExchange && spec.placement == Placement::kSplit;
  const bool two_trees =
      spec.algorithm == Algorithm::kDoubleTree || spec.algorithm == Algorithm::kAuto;
  return split || two_trees ? 2 * spec.channels : spec.channels;
}

absl::StatusOr<Schedule> MakeSchedule(const ScheduleSpec& spec) {
  return WithGenerator<Schedule>(spec,
                                 []<typename Spec>(const Generator<Spec>& generator,
                                                   const std::type_identity_t<Spec>& its_spec) {
                                   return Assemble(generator, its_spec);
                                 });
}

absl::StatusOr<RankPart> MakeRankPart(const ScheduleSpec& spec, int32_t rank) {
  return WithGenerator<RankPart>(
      spec,
      [&]<typename Spec>(const Generator<Spec>& generator,
                         const std::type_identity_t<Spec>& its_spec) -> absl::StatusOr<RankPart> {
        ASSIGN_OR_RETURN(const Shape shape, generator.shape(its_spec));
        if (rank < 0 || rank >= shape.world_size) {
          return absl::InvalidArgumentError(absl::StrCat(
              Title(spec), ": rank ", rank, " is no rank of 0..", shape.world_size - 1));
        }
        return RankPart{shape, generator.lanes(its_spec, rank)};
      });
}

}  // namespace lockstep
