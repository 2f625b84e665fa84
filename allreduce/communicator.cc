#include "allreduce/communicator.h"

#include <algorithm>
#include <utility>

#include "allreduce/host_communicator.h"
#include "base/check.h"

namespace lockstep {

ElementRange PartOf(int64_t count, int world_size, int rank) {
  CHECK(count >= 0 && rank >= 0 && rank < world_size) << count << " over " << world_size;
  const int64_t shortest = count / world_size;
  const int64_t longer = count % world_size;
  return {rank * shortest + std::min<int64_t>(rank, longer), shortest + (rank < longer ? 1 : 0)};
}

absl::Status Communicator::StartAfter(void* /*event*/) {
  return absl::InvalidArgumentError(
      "start_after: this engine takes data of the host alone, which no event of a GPU orders; wait "
      "for the event, then make the call");
}

std::unique_ptr<Communicator> MakeHostCommunicator(std::unique_ptr<Link> link, const Clock& clock,
                                                   const CommunicatorOptions& options) {
  absl::StatusOr<std::unique_ptr<HostCommunicator>> communicator =
      HostCommunicator::Make(std::move(link), clock, options);
  CHECK(communicator.ok()) << communicator.status();  // options are checked before a group is built
  return *std::move(communicator);
}

}  // namespace lockstep
