#include "worker/sync/factory.h"

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
#include "worker/sync/addition_order.h"
#include "worker/sync/all_reduce.h"
#include "worker/sync/local.h"
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
                 .optimizer_state = std::move(context.optimizer_state)};
  }
  return std::make_unique<AllReduceSynchronizer>(
      std::move(communicator), AllReduceOptions{.tensors = std::move(context.tensors),
                                                .buckets = std::move(context.buckets),
                                                .sgd = SgdFrom(experiment, variant, workers),
                                                .exact = experiment.reduction_order() == EXACT,
                                                .wire_dtype = DtypeFrom(experiment.wire_dtype(0)),
                                                .broadcast_start = experiment.broadcast_start(),
                                                .members = MemberNames(start),
                                                .hand_over = std::move(hand_over)});
}

absl::StatusOr<std::unique_ptr<Synchronizer>> MakePs(const Start& start,
                                                     const SyncContext& context) {
  const Experiment& experiment = start.run().experiment();
  const Variant& variant = start.run().variant();
  const int workers = start.run().world_size();
  const bool async = variant.ps().mode() == Ps::ASYNC;
  const bool exact = experiment.reduction_order() == EXACT && !async;
  PsClientOptions options;
  ASSIGN_OR_RETURN(options.servers, Endpoints(start, SERVER));
  options.rank = context.index;
  options.epoch = start.epoch();
  options.token = context.token;
  options.limits = context.limits;
  PsLayout& layout = options.layout;
  layout.mode = async ? PsMode::kAsync : PsMode::kSync;
  layout.order = exact ? PsOrder::kExact : PsOrder::kRank;
  for (const NamedTensor& tensor : context.tensors) {
    layout.tensor_counts.push_back(tensor.span.count);
  }
  layout.shards = start.run().servers();
  layout.world_size = workers;
  layout.sgd = SgdFrom(experiment, variant, workers);
  ASSIGN_OR_RETURN(std::unique_ptr<PsClient> client,
                   PsClient::Connect(options, *context.clock, *context.abort));
  PsSynchronizerOptions facts{.addition_order = exact ? kExactOrder : "",
                              .broadcast_start = experiment.broadcast_start()};
  if (!async && !exact) {
    facts.addition_order = AdditionOrderText(
        context.buckets, [workers](int64_t count) { return RankOrder(workers, count); });
  }
  return std::make_unique<PsSynchronizer>(std::move(client), context.index, std::move(facts));
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

Dtype DtypeFrom(DtypeSpec spec) {
  switch (spec) {
    case F32:
      return Dtype::kF32;
    case F64:
      return Dtype::kF64;
    case F16:
      return Dtype::kF16;
    case BF16:
      return Dtype::kBf16;
    default:
      break;
  }
  CHECK(false) << "gradients don't travel as " << DtypeSpec_Name(spec);
  return Dtype::kF32;
}

absl::StatusOr<std::unique_ptr<Synchronizer>> MakeSynchronizer(const Start& start,
                                                               SyncContext context) {
  const RunConfig& run = start.run();
  const Variant& variant = run.variant();
  switch (variant.sync_case()) {
    case Variant::kNone:
      return std::make_unique<LocalSynchronizer>(
          SgdFrom(run.experiment(), variant, run.world_size()), Parameters(context));
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
