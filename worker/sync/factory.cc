#include "worker/sync/factory.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "allreduce/communicator.h"
#include "allreduce/engine.h"
#include "allreduce/schedule/order.h"
#include "allreduce/transport/shm.h"
#include "allreduce/transport/tcp.h"
#include "base/check.h"
#include "base/member/group_state.h"
#include "base/member/process.h"
#include "base/status.h"
#include "ps_server/client/ps_client.h"
#include "ps_server/wire/rules_from_spec.h"
#include "worker/sync/addition_order.h"
#include "worker/sync/all_reduce.h"
#include "worker/sync/local.h"
#include "worker/sync/nccl_words.h"
#include "worker/sync/ps_synchronizer.h"
#include "worker/sync/spec_words.h"

namespace lockstep {
namespace {

int64_t Parameters(const SyncContext& context) {
  if (context.tensors.empty()) return 0;
  return context.tensors.back().span.offset + context.tensors.back().span.count;
}

Algorithm AlgorithmFrom(AllReduceSync::Algorithm algorithm) {
  const std::optional<Algorithm> named =
      AlgorithmNamed(absl::AsciiStrToLower(AllReduceSync::Algorithm_Name(algorithm)));
  CHECK(named.has_value()) << "experiment.proto and algorithm.h differ in "
                           << AllReduceSync::Algorithm_Name(algorithm);
  return *named;
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

// [rank]: "worker 0", "worker 2", "server 0".
std::vector<std::string> MemberNames(const Start& start) {
  std::vector<std::string> names;
  for (const MemberInfo& member : start.member()) {
    names.push_back(absl::StrCat(member.role() == WORKER ? "worker " : "server ", member.index()));
  }
  return names;
}

CommunicatorOptions OptionsFrom(const AllReduceSync& sync, int server_processes,
                                const Limits& limits) {
  CommunicatorOptions options;
  options.algorithm = AlgorithmFrom(sync.algorithm());
  options.channels = sync.channels();
  options.group_size = sync.group_size();
  options.limits = limits;
  options.placement = PlacementFrom(sync.placement());
  const bool colocated = options.placement == Placement::kColocated;
  options.servers = colocated ? sync.servers(0) : server_processes;
  return options;
}

// The ranks of the group: workers, then the servers of PS_EXCHANGE.
absl::StatusOr<TcpGroup> GroupFrom(const Start& start, const SyncContext& context) {
  TcpGroup group;
  group.rank =
      context.trains ? RankOf(start, context.index) : start.run().world_size() + context.index;
  ASSIGN_OR_RETURN(group.endpoints, Endpoints(start, WORKER));
  ASSIGN_OR_RETURN(const std::vector<Endpoint> servers, Endpoints(start, SERVER));
  group.endpoints.insert(group.endpoints.end(), servers.begin(), servers.end());
  group.epoch = start.epoch();
  group.token = context.token;
  return group;
}

// Over our own links.
absl::StatusOr<std::unique_ptr<Communicator>> MakeHost(const AllReduceSync& sync, TcpGroup group,
                                                       int servers, SyncContext* context) {
  const CommunicatorOptions options = OptionsFrom(sync, servers, context->limits);
  group.channels = LinkChannelsOf({.algorithm = options.algorithm,
                                   .world_size = static_cast<int32_t>(group.endpoints.size()),
                                   .servers = options.servers,
                                   .channels = options.channels,
                                   .group_size = options.group_size,
                                   .placement = options.placement});
  const bool shared = sync.link() == AllReduceSync::SHM;
  ASSIGN_OR_RETURN(std::unique_ptr<Link> link,
                   shared ? ConnectShmMesh(std::move(context->listener), group, context->limits,
                                           *context->clock, *context->abort)
                          : ConnectTcpMesh(std::move(context->listener), group, context->limits,
                                           *context->clock, *context->abort));
  if (context->faults != nullptr) {
    link = MakeFaultLink(std::move(link), {}, *context->clock, context->faults);
  }
  return MakeHostCommunicator(std::move(link), *context->clock, options);
}

// Another library's collectives, our mesh beside them for the call check.
absl::StatusOr<std::unique_ptr<Communicator>> MakeEngine(const AllReduceSync& sync, TcpGroup group,
                                                         SyncContext* context) {
  EngineOptions options;
  options.engine = EngineFrom(sync.engine());
  options.library_dir = context->engine_place.library_dir;
  options.host = group.endpoints[static_cast<size_t>(group.rank)].host;
  options.mpi_world_size = context->engine_place.mpi_world_size;
  options.nccl = NcclPlaceFrom(sync.nccl(), context->engine_place.nccl);
  options.cuda = CudaPlaceFrom(sync);
  options.limits = context->limits;
  group.channels = 1;
  ASSIGN_OR_RETURN(std::unique_ptr<Link> control,
                   ConnectTcpMesh(std::move(context->listener), group, context->limits,
                                  *context->clock, *context->abort));
  return MakeEngineCommunicator(options, std::move(control), *context->clock, *context->abort);
}

absl::StatusOr<std::unique_ptr<Synchronizer>> MakeAllReduce(const Start& start,
                                                            SyncContext context) {
  const Experiment& experiment = start.run().experiment();
  const Variant& variant = start.run().variant();
  const AllReduceSync& sync = variant.all_reduce();
  const int workers = start.run().world_size();
  ASSIGN_OR_RETURN(TcpGroup group, GroupFrom(start, context));
  const int servers = static_cast<int>(group.endpoints.size()) - workers;
  ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator,
                   sync.engine() == AllReduceSync::HOST
                       ? MakeHost(sync, std::move(group), servers, &context)
                       : MakeEngine(sync, std::move(group), &context));
  std::optional<HandOver> hand_over;
  if (start.epoch() > kFirstEpoch) {
    hand_over = {.source = RankOf(start, start.source()),
                 .step = start.step(),
                 .held = std::move(context.held)};
  }
  return std::make_unique<AllReduceSynchronizer>(
      std::move(communicator),
      AllReduceOptions{.tensors = std::move(context.tensors),
                       .buckets = std::move(context.buckets),
                       .optimizer = OptimizerFrom(experiment, variant, workers),
                       .make_optimizer = context.make_optimizer,
                       .exact = experiment.reduction_order() == EXACT,
                       .wire_dtype = DtypeFrom(experiment.wire_dtype(0)),
                       .broadcast_start = experiment.broadcast_start(),
                       .members = MemberNames(start),
                       .hand_over = std::move(hand_over)});
}

// [server]: those that are not in this group have no endpoint, and no shard.
absl::StatusOr<std::vector<Endpoint>> ServersOf(const Start& start) {
  std::vector<Endpoint> servers(static_cast<size_t>(start.run().servers()));
  for (const MemberInfo& member : start.member()) {
    if (member.role() != SERVER) continue;
    ASSIGN_OR_RETURN(servers[static_cast<size_t>(member.index())],
                     ParseEndpoint(member.endpoint()));
  }
  return servers;
}

// [shard]: the head of its chain.
std::vector<int32_t> HeadsOf(const Start& start) {
  std::vector<int32_t> heads(static_cast<size_t>(start.chain_size()));
  for (const ShardChain& chain : start.chain()) {
    heads[static_cast<size_t>(chain.shard())] = chain.server(0);
  }
  return heads;
}

int64_t IncarnationOf(const Start& start, int index) {
  for (const MemberInfo& member : start.member()) {
    if (member.role() == WORKER && member.index() == index) return member.incarnation();
  }
  return 0;
}

// What the record says of the servers' sums; empty where an update is no sum over all workers.
std::string AdditionOrderOf(const PsLayout& layout, const std::vector<Bucket>& buckets) {
  if (layout.rules.mode != PsMode::kSync) return "";
  if (layout.rules.order == PsOrder::kExact) return kExactOrder;
  return AdditionOrderText(
      buckets, [&layout](int64_t count) { return RankOrder(layout.world_size, count); });
}

absl::StatusOr<std::unique_ptr<Synchronizer>> MakePs(const Start& start, SyncContext context) {
  const RunConfig& run = start.run();
  PsClientOptions options;
  ASSIGN_OR_RETURN(options.servers, ServersOf(start));
  options.server_of_shard = HeadsOf(start);
  options.rank = context.index;
  options.incarnation = IncarnationOf(start, context.index);
  options.epoch = start.epoch();
  options.token = context.token;
  options.limits = context.limits;
  options.versions = context.held.versions;
  PsLayout& layout = options.layout;
  ASSIGN_OR_RETURN(layout.rules, PsRulesFrom(run));
  layout.placement = PsPlacementFrom(run);
  for (const NamedTensor& tensor : context.tensors) {
    layout.tensor_counts.push_back(tensor.span.count);
  }
  layout.shards = run.servers();
  layout.world_size = run.world_size();
  ASSIGN_OR_RETURN(std::unique_ptr<PsClient> client,
                   PsClient::Connect(options, *context.clock, *context.abort));
  PsSynchronizerOptions synchronizer{.addition_order = AdditionOrderOf(layout, context.buckets),
                                     .broadcast_start = run.experiment().broadcast_start(),
                                     .first_group = start.epoch() == kFirstEpoch,
                                     .held = std::move(context.held),
                                     .make_optimizer = context.make_optimizer};
  if (layout.rules.sum_only) {
    synchronizer.optimizer = layout.rules.optimizer;
    synchronizer.optimizer->divisor = 1;  // the servers' sums are divided
  }
  return std::make_unique<PsSynchronizer>(std::move(client), context.index,
                                          std::move(synchronizer));
}

}  // namespace

int RankOf(const Start& start, int index) {
  int rank = 0;
  for (const MemberInfo& member : start.member()) {  // in order of role and index
    if (member.role() != WORKER) continue;
    if (member.index() == index) return rank;
    ++rank;
  }
  CHECK(false) << "worker " << index << " is not in its own group";
  return -1;
}

int WorkersOf(const Start& start) {
  return static_cast<int>(
      std::count_if(start.member().begin(), start.member().end(),
                    [](const MemberInfo& member) { return member.role() == WORKER; }));
}

absl::StatusOr<std::unique_ptr<Synchronizer>> MakeSynchronizer(const Start& start,
                                                               SyncContext context) {
  const RunConfig& run = start.run();
  const Variant& variant = run.variant();
  switch (variant.sync_case()) {
    case Variant::kNone:
      return std::make_unique<LocalSynchronizer>(
          OptimizerFrom(run.experiment(), variant, run.world_size()), Parameters(context),
          context.make_optimizer);
    case Variant::kAllReduce:
      return MakeAllReduce(start, std::move(context));
    case Variant::kPs:
      return MakePs(start, std::move(context));
    default:
      return absl::UnimplementedError(
          absl::StrCat("variant ", variant.name(), " is not built yet"));
  }
}

}  // namespace lockstep
