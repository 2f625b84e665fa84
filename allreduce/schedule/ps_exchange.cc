#include "allreduce/schedule/ps_exchange.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/assemble.h"
#include "allreduce/schedule/fit.h"
#include "allreduce/schedule/owner_exchange.h"
#include "base/check.h"

namespace lockstep {
namespace {

// Shares that load all links alike, as small whole numbers.
void Split(Ownership* ownership) {
  const int32_t n = ownership->contributors;
  // One worker and one server: all is the server's, as for every n = s.
  const int32_t of_server = ownership->servers == 0 ? 0 : std::max(1, 2 * (n - 1));
  const int32_t of_worker = n - ownership->servers;
  const int32_t divisor = std::gcd(of_server, of_worker);
  ownership->server_chunks = of_server / divisor;
  ownership->contributor_chunks = of_worker / divisor;
  if (of_worker > 0) ownership->owning_contributors = n;
}

Ownership OwnershipOf(const PsExchangeSpec& spec) {
  Ownership ownership{.contributors = spec.workers, .channels = spec.channels};
  if (spec.placement == Placement::kColocated) {
    ownership.owning_contributors = spec.servers;
  } else {
    ownership.servers = spec.servers;
    if (spec.placement == Placement::kSplit) Split(&ownership);
  }
  return ownership;
}

}  // namespace

std::vector<Lane> PsExchangeLanes(const PsExchangeSpec& spec, int32_t rank) {
  const Ownership ownership = OwnershipOf(spec);
  const int32_t n = ownership.contributors + ownership.servers;
  CHECK(rank >= 0 && rank < n) << "rank " << rank << " of " << n;
  return LanesOf(ownership, rank);
}

absl::StatusOr<Shape> PsExchangeShape(const PsExchangeSpec& spec) {
  const bool split = spec.placement == Placement::kSplit;
  const int32_t servers_min = split ? 0 : 1;
  const int32_t channels_max = split ? kChannelsMax / 2 : kChannelsMax;  // two link channels each
  if (spec.workers < 1 || spec.servers < servers_min || spec.channels < 1 ||
      spec.channels > channels_max) {
    return absl::InvalidArgumentError(
        absl::StrCat("ps_exchange: workers ", spec.workers, ", servers ", spec.servers,
                     " and channels ", spec.channels, " must be at least 1, ", servers_min,
                     " and 1, channels at most ", channels_max));
  }
  if (spec.placement != Placement::kSpare && spec.servers > spec.workers) {
    return absl::InvalidArgumentError(
        absl::StrCat("ps_exchange: servers ", spec.servers, " exceed workers ", spec.workers,
                     ", which is for spare ones alone; the placement is ", NameOf(spec.placement)));
  }
  const Ownership ownership = OwnershipOf(spec);
  RETURN_IF_ERROR(CheckFits("ps_exchange", 2 * ownership.chunks_per_channel() * spec.channels,
                            std::max(ownership.contributor_chunks, ownership.server_chunks)));
  return ShapeOf(ownership);
}

absl::StatusOr<Schedule> MakePsExchange(const PsExchangeSpec& spec) {
  return Assemble<PsExchangeSpec>({PsExchangeShape, PsExchangeLanes}, spec);
}

}  // namespace lockstep
