#include "worker/sync/factory.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allreduce/communicator.h"
#include "allreduce/transport/tcp.h"
#include "base/member/process.h"
#include "base/status.h"
#include "ps_server/client/ps_client.h"
#include "worker/sync/all_reduce.h"
#include "worker/sync/local.h"
#include "worker/sync/ps_synchronizer.h"

namespace lockstep {
namespace {

int64_t Parameters(const SyncContext& context) {
  return context.tensors.empty() ? 0 : context.tensors.back().offset + context.tensors.back().count;
}

absl::StatusOr<std::vector<Endpoint>> Endpoints(const Start& start, Role role) {
  std::vector<Endpoint> endpoints;
  for (const MemberInfo& member : start.member()) {  // in order of role and index
    if (member.role() != role) continue;
    ASSIGN_OR_RETURN(Endpoint endpoint, ParseEndpoint(member.endpoint()));
    endpoints.push_back(std::move(endpoint));
  }
  return endpoints;
}

absl::StatusOr<std::unique_ptr<Synchronizer>> MakeAllReduce(const Start& start,
                                                            SyncContext context) {
  TcpGroup group;
  group.rank = context.rank;
  ASSIGN_OR_RETURN(group.endpoints, Endpoints(start, WORKER));
  group.epoch = start.epoch();
  group.token = context.token;
  group.channels = start.run().variant().all_reduce().channels();
  ASSIGN_OR_RETURN(std::unique_ptr<Link> link,
                   ConnectTcpMesh(std::move(context.listener), group, context.limits,
                                  *context.clock, *context.abort));
  const CommunicatorOptions options{
      .algorithm = Algorithm::kRing, .channels = group.channels, .limits = context.limits};
  return std::make_unique<AllReduceSynchronizer>(
      MakeHostCommunicator(std::move(link), *context.clock, options),
      SgdFrom(start.run().experiment(), start.run().world_size()), Parameters(context));
}

absl::StatusOr<std::unique_ptr<Synchronizer>> MakePs(const Start& start,
                                                     const SyncContext& context) {
  PsClientOptions options;
  ASSIGN_OR_RETURN(options.servers, Endpoints(start, SERVER));
  options.rank = context.rank;
  options.epoch = start.epoch();
  options.token = context.token;
  options.limits = context.limits;
  for (const TensorSpan& tensor : context.tensors) {
    options.layout.tensor_counts.push_back(tensor.count);
  }
  options.layout.shards = start.run().servers();
  options.layout.world_size = start.run().world_size();
  options.layout.sgd = SgdFrom(start.run().experiment(), start.run().world_size());
  ASSIGN_OR_RETURN(std::unique_ptr<PsClient> client,
                   PsClient::Connect(options, *context.clock, *context.abort));
  return std::make_unique<PsSynchronizer>(std::move(client), context.rank);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Synchronizer>> MakeSynchronizer(const Start& start,
                                                               SyncContext context) {
  const Variant& variant = start.run().variant();
  switch (variant.sync_case()) {
    case Variant::kNone:
      return std::make_unique<LocalSynchronizer>(SgdFrom(start.run().experiment(), 1),
                                                 Parameters(context));
    case Variant::kAllReduce:
      return MakeAllReduce(start, std::move(context));
    case Variant::kPs:
      return MakePs(start, context);
    default:
      return absl::UnimplementedError(
          absl::StrCat("variant ", variant.name(), " is not built yet"));
  }
}

}  // namespace lockstep
