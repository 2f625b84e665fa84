#include "ps_server/client/ps_client.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "ps_server/client/server_stream.h"

namespace lockstep {
namespace {

// A wait looks at `abort` this often.
constexpr int64_t kSliceMs = 10;
// gRPC lets go of a cancelled stream in milliseconds; this many slices without any news are a fault
// of it. Slices are counted, not time, so that a process that was frozen or starved isn't blamed.
constexpr int kDrainSlicesMax = 1'000;

gpr_timespec AfterNs(int64_t ns) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(ns, GPR_TIMESPAN));
}

class GrpcPsClient final : public PsClient {
 public:
  GrpcPsClient(const PsClientOptions& options, std::vector<ShardRange> ranges, const Clock& clock,
               const Abort& abort)
      : options_(options), ranges_(std::move(ranges)), clock_(clock), abort_(abort) {}
  ~GrpcPsClient() override;

  absl::Status Open();
  absl::Status Init(std::span<const float> parameters) override;
  absl::Status Push(int64_t step, int64_t offset, std::span<const float> gradients) override;
  absl::Status Pull(int64_t version, std::span<float> parameters) override;
  Traffic traffic() const override;

 private:
  // A wait: what is waited for, until when.
  struct Wait {
    std::string operation;
    const char* limit;
    int64_t timeout_ms;
    int64_t start_ns;
    int64_t deadline_ns;
  };
  // Elements of the flat space that still go to one server.
  struct Rest {
    int64_t begin = 0;
    int64_t end = 0;
  };

  Wait StartWait(const std::string& operation, const char* limit, int64_t timeout_ms,
                 int64_t grace_ms) const;
  PsFrame Header(PsKind kind, size_t shard) const;
  absl::Status SendRange(PsKind kind, int64_t step, int64_t offset, std::span<const float> values,
                         const Wait& wait);
  bool SendSome(PsKind kind, int64_t step, size_t shard, int64_t offset,
                std::span<const float> values, Rest* rest);
  absl::Status AwaitAll(const Wait& wait, bool (*done)(const ServerStream&, int64_t count),
                        const char* what);
  absl::Status Turn(const Wait& wait, const std::string& waiting);
  absl::Status OnFrame(size_t shard, const Frame& frame);
  absl::Status OnParameters(size_t shard, const Frame& frame);
  absl::Status Fail(const absl::Status& status, const Wait& wait);
  bool Drain();
  int64_t count_of(size_t shard) const { return ranges_[shard].count; }

  const PsClientOptions options_;
  const std::vector<ShardRange> ranges_;  // [shard]
  const Clock& clock_;
  const Abort& abort_;
  absl::Status failed_;
  std::unique_ptr<grpc::CompletionQueue> queue_ = std::make_unique<grpc::CompletionQueue>();
  const std::shared_ptr<LentMemory> lent_ = std::make_shared<LentMemory>();  // see ServerStream
  std::vector<std::unique_ptr<ServerStream>> streams_;                       // [shard]
  std::span<float> target_;  // of the pull that runs
  int64_t pull_version_ = 0;
};

GrpcPsClient::~GrpcPsClient() {
  for (const auto& stream : streams_) stream->Cancel();
  queue_->Shutdown();
  if (!Drain()) {
    // gRPC may still write to these: they are left to it for good.
    for (auto& stream : streams_) static_cast<void>(stream.release());
    static_cast<void>(queue_.release());
  }
  streams_.clear();
  // The caller's memory can't be left to gRPC: once reused, a server could take its bytes for
  // gradients. To end the process is then the only way that keeps the results right.
  int slices = 0;
  while (!lent_->AwaitReturned(kSliceMs)) {
    CHECK(++slices < kDrainSlicesMax) << "gRPC keeps the gradients of a cancelled call";
  }
}

// False: gRPC keeps an operation of a cancelled call.
bool GrpcPsClient::Drain() {
  void* tag = nullptr;
  bool ok = false;
  for (int slices = 0; slices < kDrainSlicesMax;) {
    const auto next = queue_->AsyncNext(&tag, &ok, AfterNs(kSliceMs * kNsPerMs));
    if (next == grpc::CompletionQueue::SHUTDOWN) return true;
    if (next == grpc::CompletionQueue::TIMEOUT) ++slices;
  }
  return false;
}

// A server that waits for other workers gives up after sync_timeout_ms and names them; `grace_ms`
// is how much later than our own clock says its word may come.
GrpcPsClient::Wait GrpcPsClient::StartWait(const std::string& operation, const char* limit,
                                           int64_t timeout_ms, int64_t grace_ms) const {
  const int64_t now_ns = clock_.NowNs();
  return {operation, limit, timeout_ms, now_ns, now_ns + (timeout_ms + grace_ms) * kNsPerMs};
}

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
      StartWait("connect", "connect_timeout_ms", options_.limits.connect_timeout_ms, 0);
  for (size_t k = 0; k < ranges_.size(); ++k) {
    streams_.push_back(std::make_unique<ServerStream>(
        ServerStream::Options{static_cast<int32_t>(k), options_.servers[k], options_.token,
                              options_.limits.message_bytes_max},
        queue_.get(), lent_));
    PsFrame hello = Header(HELLO, k);
    hello.set_layout(FingerprintOf(options_.layout));
    hello.set_description(Describe(options_.layout));
    for (const int64_t count : options_.layout.tensor_counts) hello.add_tensor_counts(count);
    streams_.back()->Send(hello, {});
  }
  return AwaitAll(
      wait, [](const ServerStream& s, int64_t /*count*/) { return s.welcomed; }, "the welcome");
}

absl::Status GrpcPsClient::Init(std::span<const float> parameters) {
  const Wait wait =
      StartWait("start values", "sync_timeout_ms", options_.limits.sync_timeout_ms, 0);
  return SendRange(INIT, 0, 0, parameters, wait);
}

absl::Status GrpcPsClient::Push(int64_t step, int64_t offset, std::span<const float> gradients) {
  const Wait wait = StartWait(absl::StrCat("push of step ", step), "sync_timeout_ms",
                              options_.limits.sync_timeout_ms, options_.limits.answer_grace_ms);
  return SendRange(PUSH, step, offset, gradients, wait);
}

absl::Status GrpcPsClient::SendRange(PsKind kind, int64_t step, int64_t offset,
                                     std::span<const float> values, const Wait& wait) {
  RETURN_IF_ERROR(failed_);
  const int64_t end = offset + static_cast<int64_t>(values.size());
  const int64_t total = ranges_.back().offset + ranges_.back().count;
  if (offset < 0 || end > total) {
    return absl::InvalidArgumentError(absl::StrCat("worker ", options_.rank, ", ", wait.operation,
                                                   ": elements [", offset, ", ", end, ") of ",
                                                   total));
  }
  const size_t servers = ranges_.size();
  std::vector<Rest> rests(servers);
  for (size_t k = 0; k < servers; ++k) {
    rests[k] = {std::max(offset, ranges_[k].offset),
                std::min(end, ranges_[k].offset + ranges_[k].count)};
  }
  for (;;) {
    std::string waiting;
    for (size_t i = 0; i < servers; ++i) {
      const size_t k = (static_cast<size_t>(options_.rank) + i) % servers;
      if (!SendSome(kind, step, k, offset, values, &rests[k])) {
        absl::StrAppend(&waiting, waiting.empty() ? "" : ", ", streams_[k]->name(), " to take ",
                        rests[k].end - rests[k].begin, " more elements of shard ", k);
      }
    }
    if (waiting.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(Turn(wait, waiting));
  }
}

// Fills the window of one server; true when nothing is left for it.
bool GrpcPsClient::SendSome(PsKind kind, int64_t step, size_t shard, int64_t offset,
                            std::span<const float> values, Rest* rest) {
  ServerStream& stream = *streams_[shard];
  const int64_t chunk = options_.limits.chunk_bytes / 4;
  while (rest->begin < rest->end && stream.queued() < options_.limits.window_chunks) {
    const int64_t count = std::min(chunk, rest->end - rest->begin);
    PsFrame header = Header(kind, shard);
    header.set_step(step);
    header.set_offset(rest->begin - ranges_[shard].offset);
    header.set_total(ranges_[shard].count);
    stream.Send(header, values.subspan(static_cast<size_t>(rest->begin - offset),
                                       static_cast<size_t>(count)));
    rest->begin += count;
  }
  return rest->begin >= rest->end;
}

absl::Status GrpcPsClient::Pull(int64_t version, std::span<float> parameters) {
  RETURN_IF_ERROR(failed_);
  const int64_t total = ranges_.back().offset + ranges_.back().count;
  CHECK_EQ(static_cast<int64_t>(parameters.size()), total);
  const Wait wait = StartWait(absl::StrCat("pull of version ", version), "sync_timeout_ms",
                              options_.limits.sync_timeout_ms, options_.limits.answer_grace_ms);
  target_ = parameters;
  pull_version_ = version;
  for (size_t k = 0; k < streams_.size(); ++k) {
    PsFrame header = Header(PULL, k);
    header.set_step(version);
    header.set_version(version);
    streams_[k]->pulling = true;
    streams_[k]->pulled = 0;
    streams_[k]->pulled_version = -1;
    streams_[k]->Send(header, {});
  }
  absl::Status status = AwaitAll(
      wait, [](const ServerStream& s, int64_t count) { return s.pulled == count; }, "parameters");
  target_ = {};
  return status;
}

absl::Status GrpcPsClient::AwaitAll(const Wait& wait,
                                    bool (*done)(const ServerStream&, int64_t count),
                                    const char* what) {
  RETURN_IF_ERROR(failed_);
  for (size_t k = 0; k < streams_.size(); ++k) {
    while (!done(*streams_[k], count_of(k))) {
      RETURN_IF_ERROR(
          Turn(wait, absl::StrCat(what, " of shard ", k, " from ", streams_[k]->name(), ": ",
                                  streams_[k]->pulled, " of ", count_of(k), " elements are here")));
    }
  }
  return absl::OkStatus();
}

// Handles one event, or returns after a short while without one.
absl::Status GrpcPsClient::Turn(const Wait& wait, const std::string& waiting) {
  const absl::Status aborted = abort_.status();
  if (!aborted.ok()) return Fail(aborted, wait);
  const int64_t now_ns = clock_.NowNs();
  if (now_ns >= wait.deadline_ns) {
    return Fail(absl::DeadlineExceededError(
                    absl::StrCat("waited ", (now_ns - wait.start_ns) / kNsPerMs, " ms for ",
                                 waiting, " (limits.", wait.limit, " ", wait.timeout_ms, ")")),
                wait);
  }
  void* raw = nullptr;
  bool ok = false;
  const int64_t slice_ns = std::min(kSliceMs * kNsPerMs, wait.deadline_ns - now_ns);
  if (queue_->AsyncNext(&raw, &ok, AfterNs(slice_ns)) != grpc::CompletionQueue::GOT_EVENT) {
    return absl::OkStatus();
  }
  const auto* tag = static_cast<ServerStream::Tag*>(raw);
  const auto found = std::find_if(streams_.begin(), streams_.end(),
                                  [&](const auto& s) { return s.get() == tag->stream; });
  const auto shard = static_cast<size_t>(found - streams_.begin());
  const absl::Status status =
      tag->stream->OnEvent(tag->op, ok, [&](const Frame& frame) { return OnFrame(shard, frame); });
  return status.ok() ? status : Fail(status, wait);
}

absl::Status GrpcPsClient::Fail(const absl::Status& status, const Wait& wait) {
  failed_ = Annotate(status, absl::StrCat("worker ", options_.rank, ", ", wait.operation));
  return failed_;
}

absl::Status GrpcPsClient::OnFrame(size_t shard, const Frame& frame) {
  ServerStream& stream = *streams_[shard];
  switch (frame.header.kind()) {
    case WELCOME:
      stream.welcomed = true;
      return absl::OkStatus();
    case PARAMETERS:
      return OnParameters(shard, frame);
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

absl::Status GrpcPsClient::OnParameters(size_t shard, const Frame& frame) {
  ServerStream& stream = *streams_[shard];
  const PsFrame& header = frame.header;
  const int64_t count = frame.payload_bytes / 4;
  const bool first = stream.pulled == 0;
  if (!stream.pulling || target_.empty() || header.shard() != static_cast<int32_t>(shard) ||
      header.total() != count_of(shard) || frame.payload_bytes % 4 != 0 || count == 0 ||
      header.offset() != stream.pulled || count > count_of(shard) - stream.pulled ||
      header.version() < pull_version_ || (!first && header.version() != stream.pulled_version)) {
    return absl::InternalError(
        absl::StrCat(stream.name(), " sent parameters out of turn: version ", header.version(),
                     " of shard ", header.shard(), ", ", frame.payload_bytes, " bytes at element ",
                     header.offset(), " of ", header.total(), "; expected version ", pull_version_,
                     " of shard ", shard, " at element ", stream.pulled, " of ", count_of(shard)));
  }
  auto* to = reinterpret_cast<std::byte*>(target_.data() + ranges_[shard].offset + stream.pulled);
  for (const Bytes piece : frame.payload) {
    std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  }
  stream.pulled_version = header.version();
  stream.pulled += count;
  if (stream.pulled == count_of(shard)) stream.pulling = false;
  return absl::OkStatus();
}

Traffic GrpcPsClient::traffic() const {
  Traffic sum;
  for (const auto& stream : streams_) sum += stream->traffic();
  return sum;
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
