#include "ps_server/client/ps_client.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/median.h"
#include "base/status.h"
#include "ps_server/client/stream_set.h"

namespace lockstep {
namespace {

// The ping-pong's: enough to outlast a connection's start, and for a median.
constexpr int kWarmUps = 5;
constexpr int kRoundTrips = 20;
constexpr int64_t kLargeBytes = int64_t{256} << 10;

ClientCoreOptions CoreOptions(const PsClientOptions& options) {
  ClientCoreOptions core = {.rank = options.rank,
                            .incarnation = options.incarnation,
                            .epoch = options.epoch,
                            .layout = options.layout,
                            .server_of_shard = options.server_of_shard,
                            .limits = options.limits,
                            .versions = options.versions};
  for (size_t k = 0; k < options.servers.size(); ++k) {
    core.server_names.push_back(
        absl::StrCat("server ", k, " (", options.servers[k].ToString(), ")"));
  }
  return core;
}

class GrpcPsClient final : public PsClient {
 public:
  GrpcPsClient(const PsClientOptions& options, std::vector<ShardRange> ranges, const Clock& clock,
               const Abort& abort)
      : options_(options),
        clock_(clock),
        core_(CoreOptions(options), std::move(ranges)),
        streams_(
            options_.rank,
            [this](size_t index, const Frame& frame) { return OnFrame(index, frame); }, clock,
            abort) {}

  absl::Status Open();
  bool initialized() const override { return core_.initialized(); }
  int64_t resume_step() const override { return core_.resume_step(); }
  absl::StatusOr<ResumePoint> Resume(std::optional<int64_t> own, bool restored) const override {
    return core_.Resume(own, restored);
  }
  absl::Status Init(std::span<const float> parameters) override;
  absl::Status Push(int64_t step, int64_t offset, std::span<const float> gradients) override;
  absl::Status Pull(int64_t step, std::span<float> parameters) override;
  absl::Status PushRows(int64_t step, int32_t tensor, std::span<const int64_t> rows,
                        std::span<const float> gradients) override;
  absl::Status PullRows(int64_t step, int32_t tensor, std::span<const int64_t> rows,
                        std::span<float> parameters) override;
  bool torn() const override { return core_.torn(); }
  std::vector<int64_t> versions() const override { return core_.versions(); }
  int64_t rejected() const override { return core_.rejected(); }
  absl::StatusOr<LinkCost> MeasureLink() override;
  Traffic traffic() const override { return streams_.traffic(); }

 private:
  using Wait = StreamSet::Wait;

  Wait StartSync(const std::string& operation, int64_t grace_ms) const {
    return streams_.StartWait(operation, "sync_timeout_ms", options_.limits.sync_timeout_ms,
                              grace_ms);
  }
  absl::Status Run(const Wait& wait);
  void FillWindows();
  absl::StatusOr<int64_t> RoundTripNs(int64_t payload_bytes, const Wait& wait);
  absl::StatusOr<bool> OnFrame(size_t index, const Frame& frame);
  absl::Status OnPong(size_t index, const Frame& frame);

  const PsClientOptions options_;
  const Clock& clock_;
  std::vector<std::byte> ping_;  // sent from here, so it outlives the streams
  int64_t pong_bytes_ = -1;      // payload of the ping under way; -1: none
  ClientCore core_;              // likewise
  StreamSet streams_;            // [i]: to core_.servers()[i]
};

absl::Status GrpcPsClient::Open() {
  const Wait wait =
      streams_.StartWait("connect", "connect_timeout_ms", options_.limits.connect_timeout_ms, 0);
  streams_.SetReopened([this](size_t index) { core_.HelloAgain(core_.servers()[index]); });
  for (const int32_t server : core_.servers()) {
    streams_.Add({.server = server,
                  .endpoint = options_.servers[static_cast<size_t>(server)],
                  .token = options_.token,
                  .message_bytes_max = options_.limits.message_bytes_max});
  }
  core_.Hello();
  RETURN_IF_ERROR(Run(wait));
  streams_.SetReopened(nullptr);
  return absl::OkStatus();
}

// Until the core's operation is through.
absl::Status GrpcPsClient::Run(const Wait& wait) {
  const auto awaited = [this] {
    StreamSet::Awaited missing{.what = core_.Awaited(), .servers = {}};
    for (const int32_t server : core_.AwaitedServers()) {
      missing.servers.push_back(absl::StrCat("server ", server));
    }
    return missing;
  };
  while (true) {
    FillWindows();
    if (core_.done()) return absl::OkStatus();
    RETURN_IF_ERROR(streams_.Turn(wait, awaited));
  }
}

void GrpcPsClient::FillWindows() {
  const size_t servers = streams_.size();
  for (size_t i = 0; i < servers; ++i) {
    const size_t index = (static_cast<size_t>(options_.rank) + i) % servers;
    ServerStream& stream = streams_[index];
    while (stream.queued() < options_.limits.window_chunks) {
      const std::optional<ClientFrame> frame = core_.Next(core_.servers()[index]);
      if (!frame.has_value()) break;
      stream.Send(frame->header, frame->payload);
    }
  }
}

absl::Status GrpcPsClient::Init(std::span<const float> parameters) {
  RETURN_IF_ERROR(streams_.check());
  core_.Init(parameters);
  return Run(StartSync("start values", 0));
}

absl::Status GrpcPsClient::Push(int64_t step, int64_t offset, std::span<const float> gradients) {
  RETURN_IF_ERROR(streams_.check());
  RETURN_IF_ERROR(core_.Push(step, offset, gradients));
  return Run(StartSync(absl::StrCat("push of step ", step), options_.limits.answer_grace_ms));
}

// A server that waits for other workers gives up after sync_timeout_ms and names them: that word
// may come later than our own clock says.
absl::Status GrpcPsClient::Pull(int64_t step, std::span<float> parameters) {
  RETURN_IF_ERROR(streams_.check());
  core_.Pull(step, parameters);
  const Wait wait = StartSync(absl::StrCat("pull of step ", step), options_.limits.answer_grace_ms);
  RETURN_IF_ERROR(streams_.OfferKept(wait));
  return Run(wait);
}

absl::Status GrpcPsClient::PushRows(int64_t step, int32_t tensor, std::span<const int64_t> rows,
                                    std::span<const float> gradients) {
  RETURN_IF_ERROR(streams_.check());
  RETURN_IF_ERROR(core_.PushRows(step, tensor, rows, gradients));
  return Run(StartSync(absl::StrCat("push of rows, step ", step), options_.limits.answer_grace_ms));
}

absl::Status GrpcPsClient::PullRows(int64_t step, int32_t tensor, std::span<const int64_t> rows,
                                    std::span<float> parameters) {
  RETURN_IF_ERROR(streams_.check());
  RETURN_IF_ERROR(core_.PullRows(step, tensor, rows, parameters));
  return Run(StartSync(absl::StrCat("pull of rows, step ", step), options_.limits.answer_grace_ms));
}

absl::StatusOr<LinkCost> GrpcPsClient::MeasureLink() {
  const Wait wait = StartSync("ping-pong", 0);
  const int64_t large_bytes = std::min(kLargeBytes, options_.limits.chunk_bytes);
  ping_.resize(static_cast<size_t>(large_bytes));
  std::vector<int64_t> empty_ns;
  std::vector<int64_t> large_ns;
  // In turn, so that whatever drifts meets both sizes.
  for (int i = 0; i < kWarmUps + kRoundTrips; ++i) {
    ASSIGN_OR_RETURN(const int64_t empty, RoundTripNs(0, wait));
    ASSIGN_OR_RETURN(const int64_t large, RoundTripNs(large_bytes, wait));
    if (i < kWarmUps) continue;
    empty_ns.push_back(empty);
    large_ns.push_back(large);
  }
  const double alpha_ns = MedianOf(empty_ns) / 2;
  const double slope = (MedianOf(large_ns) / 2 - alpha_ns) / static_cast<double>(large_bytes);
  return LinkCost{.alpha_ns = alpha_ns,
                  .beta_ns_per_byte = std::max(0.0, slope),
                  .link = "grpc",
                  .large_bytes = large_bytes,
                  .samples = kRoundTrips};
}

absl::StatusOr<int64_t> GrpcPsClient::RoundTripNs(int64_t payload_bytes, const Wait& wait) {
  RETURN_IF_ERROR(streams_.check());
  ServerStream& stream = streams_[0];
  PsFrame ping;
  ping.set_kind(PING);
  ping.set_worker(options_.rank);
  ping.set_incarnation(options_.incarnation);
  ping.set_epoch(options_.epoch);
  const auto shard = std::find(options_.server_of_shard.begin(), options_.server_of_shard.end(),
                               core_.servers()[0]);
  ping.set_shard(static_cast<int32_t>(shard - options_.server_of_shard.begin()));
  const int64_t start_ns = clock_.NowNs();
  pong_bytes_ = payload_bytes;
  stream.Send(ping, Bytes(ping_).first(static_cast<size_t>(payload_bytes)));
  const auto pong = [&] {
    return StreamSet::Awaited{
        absl::StrCat("the answer of ", stream.name(), " to a ping of ", payload_bytes, " bytes"),
        {stream.member()}};
  };
  while (pong_bytes_ >= 0) RETURN_IF_ERROR(streams_.Turn(wait, pong));
  return clock_.NowNs() - start_ns;
}

absl::StatusOr<bool> GrpcPsClient::OnFrame(size_t index, const Frame& frame) {
  if (core_.TakesLater(frame.header)) return false;
  RETURN_IF_ERROR(frame.header.kind() == PONG ? OnPong(index, frame)
                                              : core_.OnFrame(core_.servers()[index], frame));
  return true;
}

absl::Status GrpcPsClient::OnPong(size_t index, const Frame& frame) {
  if (index != 0 || pong_bytes_ != frame.payload_bytes) {
    return absl::InternalError(absl::StrCat(streams_[index].name(), " answered a ping of ",
                                            pong_bytes_, " bytes with ", frame.payload_bytes,
                                            " (-1: there was no ping)"));
  }
  pong_bytes_ = -1;
  return absl::OkStatus();
}

absl::Status CheckOptions(const PsClientOptions& options) {
  const auto servers = static_cast<int32_t>(options.servers.size());
  const bool placed = std::all_of(options.server_of_shard.begin(), options.server_of_shard.end(),
                                  [&](int32_t server) { return server >= 0 && server < servers; });
  if (static_cast<int32_t>(options.server_of_shard.size()) != options.layout.shards || !placed) {
    return absl::InvalidArgumentError(absl::StrCat("worker ", options.rank, ": ", servers,
                                                   " servers for ", options.layout.shards,
                                                   " shards; expected one of them for each"));
  }
  const int64_t frame_bytes = options.limits.chunk_bytes + kFrameHeaderBytesMax;
  if (frame_bytes > options.limits.message_bytes_max) {
    return absl::InvalidArgumentError(absl::StrCat(
        "limits.message_bytes_max ", options.limits.message_bytes_max, " does not hold a chunk of ",
        "limits.chunk_bytes ", options.limits.chunk_bytes, " and its header of ",
        kFrameHeaderBytesMax, "; raise it to ", frame_bytes, " or lower chunk_bytes"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<PsClient>> PsClient::Connect(const PsClientOptions& asked,
                                                            const Clock& clock,
                                                            const Abort& abort) {
  PsClientOptions options = asked;
  if (options.server_of_shard.empty()) {
    options.server_of_shard.resize(options.servers.size());
    std::iota(options.server_of_shard.begin(), options.server_of_shard.end(), 0);
  }
  RETURN_IF_ERROR(CheckOptions(options));
  ASSIGN_OR_RETURN(
      std::vector<ShardRange> ranges,
      Partition(options.layout.tensor_counts, options.layout.shards, options.layout.placement));
  for (const ShardRange& range : ranges) {
    RETURN_IF_ERROR(
        TablesIn(range, options.layout.tensor_counts, options.layout.row_elements).status());
  }
  auto client = std::make_unique<GrpcPsClient>(options, std::move(ranges), clock, abort);
  RETURN_IF_ERROR(client->Open());
  return std::unique_ptr<PsClient>(std::move(client));
}

}  // namespace lockstep
