#include "allreduce/schedule/generate.h"

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/assemble.h"
#include "allreduce/schedule/naive.h"
#include "allreduce/schedule/ps_exchange.h"
#include "allreduce/schedule/ring.h"
#include "allreduce/schedule/tree.h"

namespace lockstep {
namespace {

absl::Status CheckServers(const ScheduleSpec& spec) {
  if (spec.algorithm == Algorithm::kPsExchange || spec.servers == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      NameOf(spec.algorithm), ": has no servers, was given ", spec.servers, "; set servers to 0"));
}

// use(generator, its spec)
template <typename Result, typename Use>
absl::StatusOr<Result> WithGenerator(const ScheduleSpec& spec, const Use& use) {
  RETURN_IF_ERROR(CheckServers(spec));
  switch (spec.algorithm) {
    case Algorithm::kRing:
      return use(Generator<RingSpec>{RingShape, RingLanes},
                 RingSpec{.world_size = spec.world_size, .channels = spec.channels});
    case Algorithm::kNaive:
      return use(Generator<NaiveSpec>{NaiveShape, NaiveLanes},
                 NaiveSpec{.world_size = spec.world_size, .channels = spec.channels});
    case Algorithm::kTree:
      return use(Generator<TreeSpec>{TreeShape, TreeLanes},
                 TreeSpec{.world_size = spec.world_size,
                          .channels = spec.channels,
                          .chunks_per_channel = kTreeChunksPerChannel});
    case Algorithm::kPsExchange:
      return use(Generator<PsExchangeSpec>{PsExchangeShape, PsExchangeLanes},
                 PsExchangeSpec{.workers = spec.world_size - spec.servers,
                                .servers = spec.servers,
                                .channels = spec.channels});
  }
  return absl::InvalidArgumentError(
      absl::StrCat("schedule: no algorithm has the number ", static_cast<int>(spec.algorithm)));
}

}  // namespace

absl::StatusOr<Schedule> MakeSchedule(const ScheduleSpec& spec) {
  return WithGenerator<Schedule>(spec, [](const auto& generator, const auto& its_spec) {
    return Assemble(generator, its_spec);
  });
}

absl::StatusOr<RankPart> MakeRankPart(const ScheduleSpec& spec, int32_t rank) {
  return WithGenerator<RankPart>(
      spec, [&](const auto& generator, const auto& its_spec) -> absl::StatusOr<RankPart> {
        ASSIGN_OR_RETURN(const Shape shape, generator.shape(its_spec));
        if (rank < 0 || rank >= shape.world_size) {
          return absl::InvalidArgumentError(absl::StrCat(
              NameOf(spec.algorithm), ": rank ", rank, " is no rank of 0..", shape.world_size - 1));
        }
        return RankPart{shape, generator.lanes(its_spec, rank)};
      });
}

}  // namespace lockstep
