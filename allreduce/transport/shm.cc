#include "allreduce/transport/shm.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/transport/shm_exchange.h"
#include "allreduce/transport/shm_link.h"
#include "allreduce/transport/tcp_link.h"
#include "base/status.h"

namespace lockstep {
namespace {

// This rank's memory, allocated; then everybody's, mapped.
absl::StatusOr<ShmGroupMemory> ShareMemory(const ShmLayout& layout, int rank, ShmExchange* exchange,
                                           const MapFunction& map) {
  ShmGroupMemory memory;
  memory.layout = layout;
  memory.map = map;
  const int64_t bytes = layout.TotalBytes();
  ASSIGN_OR_RETURN(UniqueFd own, MakeSharedFile());
  RETURN_IF_ERROR(Grow(own.get(), bytes).status());
  ASSIGN_OR_RETURN(memory.files, exchange->Share(own.get()));
  memory.files[static_cast<size_t>(rank)] = std::move(own);
  for (const UniqueFd& file : memory.files) {
    RETURN_IF_ERROR(CheckSharedFile(file.get(), bytes));
    ASSIGN_OR_RETURN(SharedMapping mapping, map(file.get(), 0, bytes));
    memory.mappings.push_back(std::move(mapping));
  }
  return memory;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Link>> ConnectShmMesh(Listener listener, const TcpGroup& group,
                                                     const Limits& limits, const Clock& clock,
                                                     const Abort& abort, const MapFunction& map) {
  const int64_t deadline_ns = clock.NowNs() + limits.connect_timeout_ms * kNsPerMs;
  ASSIGN_OR_RETURN(
      std::vector<TcpPeerSockets> sockets,
      ConnectTcpSockets(std::move(listener), group, /*data_channels=*/0, limits, clock, abort));
  std::vector<UniqueFd> controls = TakeControls(&sockets);
  const ShmLayout layout{static_cast<int>(group.endpoints.size()), group.channels};
  const std::string context = absl::StrCat("rank ", group.rank);
  // Before the greeting: whoever is greeted knows that there was memory for all.
  RETURN_IF_ERROR(Annotate(CheckMemory(layout.TotalBytes(), layout.world_size), context));
  ShmExchange exchange(group.rank, controls, clock, abort, deadline_ns);
  RETURN_IF_ERROR(exchange.Greet(group.channels, layout.TotalBytes()));
  absl::StatusOr<ShmGroupMemory> memory = ShareMemory(layout, group.rank, &exchange, map);
  if (!memory.ok()) return Annotate(memory.status(), context);
  MoveToCoreOf(group.rank);
  return std::make_unique<ShmLink>(
      ShmLink::Options{group.rank, group.epoch, limits.message_bytes_max}, *std::move(memory),
      TcpControls(group.rank, group.epoch, std::move(controls), clock, abort), clock, abort);
}

}  // namespace lockstep
