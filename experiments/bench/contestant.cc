#include "experiments/bench/contestant.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "allreduce/communicator.h"
#include "allreduce/engine/load.h"
#include "allreduce/host/memory.h"
#include "allreduce/transport/shm.h"
#include "allreduce/transport/tcp.h"
#include "base/median.h"
#include "base/numeric/fold.h"
#include "base/socket.h"
#include "base/status.h"
#include "experiments/bench/sockets.h"

namespace lockstep {
namespace {

constexpr char kLoopback[] = "127.0.0.1";
constexpr int64_t kCrowdBytes = int64_t{256} << 10;  // its bytes take longer than its messages

class HostContestant final : public Contestant {
 public:
  HostContestant(const ContestantOptions& options, const Clock& clock, const Abort& abort)
      : options_(options), clock_(clock), abort_(abort) {}

  // One listener, and so one mesh, an algorithm.
  absl::StatusOr<std::string> Address() override {
    std::vector<std::string> endpoints;
    while (listeners_.size() < options_.algorithms.size()) {
      ASSIGN_OR_RETURN(Listener listener, Listen({kLoopback, 0}));
      endpoints.push_back(listener.endpoint.ToString());
      listeners_.push_back(std::move(listener));
    }
    return absl::StrJoin(endpoints, ",");
  }

  absl::StatusOr<std::string> Connect(const std::vector<std::string>& addresses) override {
    for (size_t i = 0; i < options_.algorithms.size(); ++i) {
      ASSIGN_OR_RETURN(const CommunicatorOptions options, OptionsOf(options_.algorithms[i]));
      TcpGroup group;
      group.rank = options_.rank;
      group.epoch = static_cast<int64_t>(i) + 1;
      group.token = options_.token;
      group.channels = LinkChannelsOf({.algorithm = options.algorithm,
                                       .world_size = options_.world_size,
                                       .servers = options.servers,
                                       .channels = options.channels});
      for (const std::string& address : addresses) {
        const std::vector<std::string> endpoints = absl::StrSplit(address, ',');
        if (i >= endpoints.size()) return absl::InvalidArgumentError("too few endpoints");
        ASSIGN_OR_RETURN(Endpoint endpoint, ParseEndpoint(endpoints[i]));
        group.endpoints.push_back(std::move(endpoint));
      }
      auto* const connect = options_.link == "shm" ? ConnectShm : ConnectTcp;
      ASSIGN_OR_RETURN(std::unique_ptr<Link> link,
                       connect(std::move(listeners_[i]), group, options_.limits, clock_, abort_));
      communicators_[options_.algorithms[i]] =
          MakeHostCommunicator(std::move(link), clock_, options);
    }
    return MeasureLink();
  }

  absl::StatusOr<std::span<std::byte>> Begin(const Turn& turn) override {
    const auto it = communicators_.find(turn.algorithm);
    if (it == communicators_.end()) {
      return absl::NotFoundError(absl::StrCat("algorithm ", turn.algorithm, " is not set up"));
    }
    turn_ = it->second.get();
    // Shared memory is mapped by all and stays; ordinary memory serves all algorithms.
    std::span<std::byte>& buffer = buffers_[options_.link == "shm" ? turn.algorithm : ""];
    if (buffer.empty()) {
      ASSIGN_OR_RETURN(buffer, turn_->Allocate(options_.bytes_max));
    }
    return buffer;
  }

  absl::Status AllReduce(const Turn& turn, void* data) override {
    if (turn.algorithm == kReduceBroadcast) {
      RETURN_IF_ERROR(turn_->Reduce(data, turn.count, turn.dtype, turn.op, /*root=*/0));
      return turn_->Broadcast(data, turn.count, turn.dtype, /*root=*/0);
    }
    if (turn.algorithm == kReduceScatterAllGather) {
      RETURN_IF_ERROR(turn_->ReduceScatter(data, turn.count, turn.dtype, turn.op));
      return turn_->AllGather(data, turn.count, turn.dtype);
    }
    return turn_->AllReduce(data, turn.count, turn.dtype, turn.op);
  }

  absl::Status End() override { return absl::OkStatus(); }  // a call ends with nothing under way
  int contributors() const override { return turn_->contributors(); }
  Sent sent() const override {
    const Traffic traffic = turn_->traffic();
    return {static_cast<double>(traffic.sent_bytes), static_cast<double>(traffic.sent_messages)};
  }
  std::string Choice(const Turn& turn) const override {
    return turn_->Choice(turn.count * SizeOf(turn.dtype));
  }

 private:
  // Over one of the meshes, for the model; the other ranks have nothing to say.
  absl::StatusOr<std::string> MeasureLink() {
    ASSIGN_OR_RETURN(const std::optional<LinkCost> cost,
                     communicators_.begin()->second->MeasureLink());
    ASSIGN_OR_RETURN(const double empty_ns, AllGatherNs(0));
    ASSIGN_OR_RETURN(const double large_ns, AllGatherNs(kCrowdBytes));
    if (!cost.has_value()) return std::string("host");
    return ToLine(
        LinkWords{cost->alpha_ns, cost->beta_ns_per_byte, empty_ns, large_ns, kCrowdBytes});
  }

  // Median time of a call of all ranks.
  absl::StatusOr<double> AllGatherNs(int64_t bytes) {
    constexpr int kWarmUps = 3;
    constexpr int kSamples = 9;
    std::vector<std::byte> data(static_cast<size_t>(bytes));
    std::vector<int64_t> times_ns;
    for (int i = 0; i < kWarmUps + kSamples; ++i) {
      const int64_t start_ns = clock_.NowNs();
      RETURN_IF_ERROR(communicators_.begin()->second->AllGather(data.data(), bytes, Dtype::kU8));
      if (i >= kWarmUps) times_ns.push_back(clock_.NowNs() - start_ns);
    }
    return MedianOf(times_ns);
  }

  static absl::StatusOr<std::unique_ptr<Link>> ConnectShm(Listener listener, const TcpGroup& group,
                                                          const Limits& limits, const Clock& clock,
                                                          const Abort& abort) {
    return ConnectShmMesh(std::move(listener), group, limits, clock, abort);
  }
  static absl::StatusOr<std::unique_ptr<Link>> ConnectTcp(Listener listener, const TcpGroup& group,
                                                          const Limits& limits, const Clock& clock,
                                                          const Abort& abort) {
    return ConnectTcpMesh(std::move(listener), group, limits, clock, abort);
  }

  absl::StatusOr<CommunicatorOptions> OptionsOf(const std::string& name) const {
    CommunicatorOptions options;
    options.channels = options_.channels;
    options.limits = options_.limits;
    if (name == kReduceBroadcast) {
      options.algorithm = Algorithm::kTree;
    } else if (name == kReduceScatterAllGather) {
      options.algorithm = Algorithm::kRing;
    } else if (const std::optional<Algorithm> algorithm = AlgorithmNamed(name)) {
      options.algorithm = *algorithm;
    } else {
      return absl::InvalidArgumentError(absl::StrCat("no algorithm '", name, "'"));
    }
    if (options.algorithm == Algorithm::kPsExchange) options.servers = options_.servers;
    return options;
  }

  const ContestantOptions options_;
  const Clock& clock_;
  const Abort& abort_;
  std::vector<Listener> listeners_;                                     // [algorithm]
  std::map<std::string, std::unique_ptr<Communicator>> communicators_;  // [algorithm]
  std::map<std::string, std::span<std::byte>> buffers_;                 // [algorithm, or ""]
  Communicator* turn_ = nullptr;
};

class LibraryContestant final : public Contestant {
 public:
  LibraryContestant(const ContestantOptions& options, std::unique_ptr<EngineLibrary> library,
                    AlignedMemory memory)
      : options_(options), library_(std::move(library)), memory_(std::move(memory)) {}

  absl::StatusOr<std::string> Address() override {
    std::string address;
    RETURN_IF_ERROR(library_->Prepare(&address));
    return address;
  }

  absl::StatusOr<std::string> Connect(const std::vector<std::string>& addresses) override {
    RETURN_IF_ERROR(library_->Connect(addresses, /*keep_waiting=*/{}));
    return library_->Version();
  }

  absl::StatusOr<std::span<std::byte>> Begin(const Turn& turn) override {
    if (turn.algorithm != algorithm_) RETURN_IF_ERROR(library_->UseAlgorithm(turn.algorithm));
    algorithm_ = turn.algorithm;
    return memory_.bytes();
  }

  absl::Status AllReduce(const Turn& turn, void* data) override {
    LibraryCall call;
    call.data = data;
    call.count = turn.count;
    call.dtype = turn.dtype;
    call.op = turn.op == ReduceOp::kAvg ? ReduceOp::kSum : turn.op;
    call.timeout_ms = options_.limits.sync_timeout_ms;
    RETURN_IF_ERROR(library_->AllReduce(call));
    if (turn.op == ReduceOp::kAvg) Average(turn.dtype, data, options_.world_size, turn.count);
    return absl::OkStatus();
  }

  absl::Status End() override { return library_->Settle(); }
  int contributors() const override { return options_.world_size; }
  Sent sent() const override {
    if (options_.link != "tcp") return {};
    return {static_cast<double>(LookAtTcpSockets().sent_bytes), -1};
  }
  std::string Choice(const Turn& turn) const override { return turn.algorithm; }

 private:
  const ContestantOptions options_;
  const std::unique_ptr<EngineLibrary> library_;
  const AlignedMemory memory_;
  std::string algorithm_;
};

// Adds own memory to itself: every byte is read and written once, by the same code that folds.
class RoofContestant final : public Contestant {
 public:
  explicit RoofContestant(AlignedMemory memory) : memory_(std::move(memory)) {}

  absl::StatusOr<std::string> Address() override { return std::string(); }
  absl::StatusOr<std::string> Connect(const std::vector<std::string>&) override {
    return std::string(kRoof);
  }
  absl::StatusOr<std::span<std::byte>> Begin(const Turn&) override { return memory_.bytes(); }
  absl::Status AllReduce(const Turn& turn, void* data) override {
    auto* const own = static_cast<std::byte*>(data);
    const std::array<const std::byte*, 2> sources = {own, own};
    const std::array<std::byte*, 1> targets = {own};
    const ReduceOp op = turn.op == ReduceOp::kAvg ? ReduceOp::kSum : turn.op;
    FoldAll(turn.dtype, op, {sources, targets}, turn.count);
    return absl::OkStatus();
  }
  absl::Status End() override { return absl::OkStatus(); }
  int contributors() const override { return 0; }  // no result to check
  Sent sent() const override { return {}; }
  std::string Choice(const Turn& turn) const override { return turn.algorithm; }

 private:
  const AlignedMemory memory_;
};

CudaPlace CudaPlaceOf(const ContestantOptions& options) {
  CudaPlace place;
  const bool named = !options.algorithms.empty() && options.algorithms[0] != "default";
  if (named) place.algorithm = options.algorithms[0];
  return place;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Contestant>> MakeContestant(const ContestantOptions& options,
                                                           const Clock& clock, const Abort& abort) {
  if (options.engine == "host") return std::make_unique<HostContestant>(options, clock, abort);
  if (options.engine == kRoof) {
    ASSIGN_OR_RETURN(AlignedMemory memory, AlignedMemory::Make(options.bytes_max));
    return std::make_unique<RoofContestant>(std::move(memory));
  }
  const std::optional<Engine> engine = EngineNamed(options.engine);
  if (!engine.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("no engine '", options.engine, "'"));
  }
  LibrarySetup setup;
  setup.rank = options.rank;
  setup.world_size = options.world_size;
  setup.host = kLoopback;
  // Gloo's older algorithms wait as long as connecting may take, whatever a call says.
  setup.connect_timeout_ms = options.limits.sync_timeout_ms;
  setup.nccl = options.nccl;
  if (engine == Engine::kCuda) setup.cuda = CudaPlaceOf(options);
  ASSIGN_OR_RETURN(std::unique_ptr<EngineLibrary> library,
                   LoadEngine(*engine, options.library_dir, setup));
  ASSIGN_OR_RETURN(AlignedMemory memory, AlignedMemory::Make(options.bytes_max));
  return std::make_unique<LibraryContestant>(options, std::move(library), std::move(memory));
}

}  // namespace lockstep
