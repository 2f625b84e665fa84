#include "ps_server/client/ps_client.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "ps_server/client/stream_set.h"

namespace lockstep {
namespace {

// The ping-pong's: enough to outlast a connection's start, and for a median.
constexpr int kWarmUps = 5;
constexpr int kRoundTrips = 20;
constexpr int64_t kLargeBytes = int64_t{256} << 10;

double MedianOf(std::vector<int64_t> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return static_cast<double>(*middle);
}

class GrpcPsClient final : public PsClient {
 public:
  GrpcPsClient(const PsClientOptions& options, std::vector<ShardRange> ranges, const Clock& clock,
               const Abort& abort)
      : options_(options),
        ranges_(std::move(ranges)),
        clock_(clock),
        streams_(
            options_.rank,
            [this](size_t shard, const Frame& frame) { return OnFrame(shard, frame); }, clock,
            abort) {}

  absl::Status Open();
  absl::Status Init(std::span<const float> parameters) override;
  absl::Status Push(int64_t step, int64_t offset, std::span<const float> gradients) override;
  absl::Status Pull(int64_t step, std::span<float> parameters) override;
  absl::StatusOr<LinkCost> MeasureLink() override;
  Traffic traffic() const override { return streams_.traffic(); }

 private:
  using Wait = StreamSet::Wait;
  // Elements of the flat space that still go to one server.
  struct Rest {
    int64_t begin = 0;
    int64_t end = 0;
  };

  PsFrame Header(PsKind kind, size_t shard) const;
  Wait StartSync(const std::string& operation, int64_t grace_ms) const {
    return streams_.StartWait(operation, "sync_timeout_ms", options_.limits.sync_timeout_ms,
                              grace_ms);
  }
  absl::Status SendRange(PsKind kind, int64_t step, int64_t offset, std::span<const float> values,
                         const Wait& wait);
  bool SendSome(PsKind kind, int64_t step, size_t shard, int64_t offset,
                std::span<const float> values, Rest* rest);
  absl::StatusOr<int64_t> RoundTripNs(int64_t payload_bytes, const Wait& wait);
  absl::Status OnFrame(size_t shard, const Frame& frame);
  absl::Status OnParameters(size_t shard, const Frame& frame);
  absl::Status OnPong(size_t shard, const Frame& frame);
  int64_t count_of(size_t shard) const { return ranges_[shard].count; }
  int64_t total() const { return ranges_.back().offset + ranges_.back().count; }

  const PsClientOptions options_;
  const std::vector<ShardRange> ranges_;  // [shard]
  const Clock& clock_;
  std::vector<std::byte> ping_;  // sent from here, so it outlives the streams
  std::span<float> target_;      // of the pull that runs
  int64_t pull_step_ = 0;
  StreamSet streams_;
};

PsFrame GrpcPsClient::Header(PsKind kind, size_t shard) const {
  PsFrame header;
  header.set_kind(kind);
  header.set_worker(options_.rank);
  header.set_incarnation(options_.incarnation);
  header.set_epoch(options_.epoch);
  header.set_shard(static_cast<int32_t>(shard));
  return header;
}

absl::Status GrpcPsClient::Open() {
  const Wait wait =
      streams_.StartWait("connect", "connect_timeout_ms", options_.limits.connect_timeout_ms, 0);
  for (size_t k = 0; k < ranges_.size(); ++k) {
    ServerStream& stream = streams_.Add({static_cast<int32_t>(k), options_.servers[k],
                                         options_.token, options_.limits.message_bytes_max});
    PsFrame hello = Header(HELLO, k);
    hello.set_layout(FingerprintOf(options_.layout));
    hello.set_description(Describe(options_.layout));
    for (const int64_t count : options_.layout.tensor_counts) hello.add_tensor_counts(count);
    stream.Send(hello, {});
  }
  return streams_.AwaitAll(
      wait, [this](size_t k) { return streams_[k].welcomed; },
      [this](size_t k) {
        return absl::StrCat("the welcome of shard ", k, " from ", streams_[k].name());
      });
}

absl::Status GrpcPsClient::Init(std::span<const float> parameters) {
  return SendRange(INIT, 0, 0, parameters, StartSync("start values", 0));
}

absl::Status GrpcPsClient::Push(int64_t step, int64_t offset, std::span<const float> gradients) {
  return SendRange(PUSH, step, offset, gradients,
                   StartSync(absl::StrCat("push of step ", step), options_.limits.answer_grace_ms));
}

absl::Status GrpcPsClient::SendRange(PsKind kind, int64_t step, int64_t offset,
                                     std::span<const float> values, const Wait& wait) {
  RETURN_IF_ERROR(streams_.check());
  const int64_t end = offset + static_cast<int64_t>(values.size());
  if (offset < 0 || end > total()) {
    return absl::InvalidArgumentError(absl::StrCat("worker ", options_.rank, ", ", wait.operation,
                                                   ": elements [", offset, ", ", end, ") of ",
                                                   total()));
  }
  const size_t servers = ranges_.size();
  std::vector<Rest> rests(servers);
  for (size_t k = 0; k < servers; ++k) {
    rests[k] = {std::max(offset, ranges_[k].offset),
                std::min(end, ranges_[k].offset + ranges_[k].count)};
  }
  for (;;) {
    StreamSet::Awaited awaited;
    for (size_t i = 0; i < servers; ++i) {
      const size_t k = (static_cast<size_t>(options_.rank) + i) % servers;
      if (SendSome(kind, step, k, offset, values, &rests[k])) continue;
      absl::StrAppend(&awaited.what, awaited.what.empty() ? "" : ", ", streams_[k].name(),
                      " to take ", rests[k].end - rests[k].begin, " more elements of shard ", k);
      awaited.servers.push_back(streams_[k].member());
    }
    if (awaited.servers.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(streams_.Turn(wait, awaited));
  }
}

// Fills the window of one server; true when nothing is left for it.
bool GrpcPsClient::SendSome(PsKind kind, int64_t step, size_t shard, int64_t offset,
                            std::span<const float> values, Rest* rest) {
  ServerStream& stream = streams_[shard];
  const int64_t chunk = options_.limits.chunk_bytes / 4;
  while (rest->begin < rest->end && stream.queued() < options_.limits.window_chunks) {
    const int64_t count = std::min(chunk, rest->end - rest->begin);
    PsFrame header = Header(kind, shard);
    header.set_step(step);
    header.set_offset(rest->begin - ranges_[shard].offset);
    header.set_total(count_of(shard));
    stream.Send(header, std::as_bytes(values.subspan(static_cast<size_t>(rest->begin - offset),
                                                     static_cast<size_t>(count))));
    rest->begin += count;
  }
  return rest->begin >= rest->end;
}

// A server that waits for other workers gives up after sync_timeout_ms and names them: that word
// may come later than our own clock says.
absl::Status GrpcPsClient::Pull(int64_t step, std::span<float> parameters) {
  RETURN_IF_ERROR(streams_.check());
  CHECK_EQ(static_cast<int64_t>(parameters.size()), total());
  const Wait wait = StartSync(absl::StrCat("pull of step ", step), options_.limits.answer_grace_ms);
  target_ = parameters;
  pull_step_ = step;
  for (size_t k = 0; k < streams_.size(); ++k) {
    PsFrame header = Header(PULL, k);
    header.set_step(step);
    streams_[k].pulling = true;
    streams_[k].pulled = 0;
    streams_[k].Send(header, {});
  }
  absl::Status status = streams_.AwaitAll(
      wait, [this](size_t k) { return !streams_[k].pulling; },
      [this](size_t k) {
        return absl::StrCat("parameters of shard ", k, " from ", streams_[k].name(), ": ",
                            streams_[k].pulled, " of ", count_of(k), " elements are here");
      });
  target_ = {};
  return status;
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
  const int64_t start_ns = clock_.NowNs();
  stream.pong_bytes = payload_bytes;
  stream.Send(Header(PING, 0), Bytes(ping_).first(static_cast<size_t>(payload_bytes)));
  const StreamSet::Awaited pong = {
      absl::StrCat("the answer of ", stream.name(), " to a ping of ", payload_bytes, " bytes"),
      {stream.member()}};
  while (stream.pong_bytes >= 0) RETURN_IF_ERROR(streams_.Turn(wait, pong));
  return clock_.NowNs() - start_ns;
}

absl::Status GrpcPsClient::OnFrame(size_t shard, const Frame& frame) {
  ServerStream& stream = streams_[shard];
  switch (frame.header.kind()) {
    case WELCOME:
      stream.welcomed = true;
      return absl::OkStatus();
    case PARAMETERS:
      return OnParameters(shard, frame);
    case PONG:
      return OnPong(shard, frame);
    case REFUSED: {
      const int code = frame.header.code();
      const bool known = code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
      const absl::Status refused(
          known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kInternal,
          absl::StrCat(stream.name(), " refused: ", frame.header.reason()));
      return Blame(refused, {frame.header.blamed().begin(), frame.header.blamed().end()});
    }
    default:
      return absl::InternalError(absl::StrCat(stream.name(), " sent a frame of kind ",
                                              static_cast<int>(frame.header.kind())));
  }
}

// A reply has our own steps at least, is one version throughout, and never goes back.
absl::Status GrpcPsClient::OnParameters(size_t shard, const Frame& frame) {
  ServerStream& stream = streams_[shard];
  const PsFrame& header = frame.header;
  const int64_t count = frame.payload_bytes / 4;
  const bool first = stream.pulled == 0;
  const int64_t version_min = std::max(pull_step_, stream.version);
  if (!stream.pulling || target_.empty() || header.shard() != static_cast<int32_t>(shard) ||
      header.step() != pull_step_ || header.total() != count_of(shard) ||
      frame.payload_bytes % 4 != 0 || count == 0 || header.offset() != stream.pulled ||
      count > count_of(shard) - stream.pulled || header.version() < version_min ||
      (!first && header.version() != stream.version)) {
    return absl::InternalError(
        absl::StrCat(stream.name(), " sent parameters out of turn: step ", header.step(),
                     ", version ", header.version(), " of shard ", header.shard(), ", ",
                     frame.payload_bytes, " bytes at element ", header.offset(), " of ",
                     header.total(), "; expected step ", pull_step_, ", version ", version_min,
                     " of shard ", shard, " at element ", stream.pulled, " of ", count_of(shard)));
  }
  auto* to = reinterpret_cast<std::byte*>(target_.data() + ranges_[shard].offset + stream.pulled);
  for (const Bytes piece : frame.payload) {
    std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  }
  stream.version = header.version();
  stream.pulled += count;
  if (stream.pulled == count_of(shard)) stream.pulling = false;
  return absl::OkStatus();
}

absl::Status GrpcPsClient::OnPong(size_t shard, const Frame& frame) {
  ServerStream& stream = streams_[shard];
  if (stream.pong_bytes != frame.payload_bytes) {
    return absl::InternalError(absl::StrCat(stream.name(), " answered a ping of ",
                                            stream.pong_bytes, " bytes with ", frame.payload_bytes,
                                            " (-1: there was no ping)"));
  }
  stream.pong_bytes = -1;
  return absl::OkStatus();
}

absl::Status CheckOptions(const PsClientOptions& options) {
  const auto servers = static_cast<int32_t>(options.servers.size());
  if (servers != options.layout.shards) {
    return absl::InvalidArgumentError(absl::StrCat("worker ", options.rank, ": ", servers,
                                                   " servers for ", options.layout.shards,
                                                   " shards; expected one each"));
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

absl::StatusOr<std::unique_ptr<PsClient>> PsClient::Connect(const PsClientOptions& options,
                                                            const Clock& clock,
                                                            const Abort& abort) {
  RETURN_IF_ERROR(CheckOptions(options));
  ASSIGN_OR_RETURN(std::vector<ShardRange> ranges,
                   Partition(options.layout.tensor_counts, options.layout.shards));
  auto client = std::make_unique<GrpcPsClient>(options, std::move(ranges), clock, abort);
  RETURN_IF_ERROR(client->Open());
  return std::unique_ptr<PsClient>(std::move(client));
}

}  // namespace lockstep
