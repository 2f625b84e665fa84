#include "ps_server/service/ps_service.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <algorithm>
#include <deque>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "base/sync.h"
#include "proto/parameter_server.grpc.pb.h"
#include "ps_server/wire/grpc_frame.h"

namespace lockstep {
namespace {

using RawService = ParameterServer::WithRawMethod_Exchange<ParameterServer::Service>;

// How late a timeout may be seen, and how long Configure may wait for the polling thread.
constexpr int64_t kTickMs = 10;

struct ServerStream;

enum class Op { kAccept, kRead, kWrite, kFinish };
struct Tag {
  ServerStream* stream;
  Op op;
};

// One worker's call. Owned by the polling thread; deleted when no operation is pending.
struct ServerStream {
  grpc::ServerContext context;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> io{&context};
  Tag accept{this, Op::kAccept};
  Tag read{this, Op::kRead};
  Tag write{this, Op::kWrite};
  Tag finish{this, Op::kFinish};

  int64_t id = 0;
  grpc::ByteBuffer incoming;
  std::deque<Outgoing> queue;
  int64_t sent = 0;                 // elements of queue.front().parameters
  PsFrame in_flight;                // header of the frame being written
  bool in_flight_complete = false;  // the last one of its Outgoing
  bool reading = false;
  bool writing = false;
  bool last_written = false;  // nothing follows: REFUSED
  bool broken = false;        // the worker is gone or done
  bool finished = false;
  bool finishing = false;
  bool idle() const { return !reading && !writing && !finishing; }
};

gpr_timespec AfterMs(int64_t ms) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(ms, GPR_TIMESPAN));
}

// A view of `count` elements from `offset` that keeps the whole version alive.
grpc::Slice SliceOf(const SharedParameters& parameters, int64_t offset, int64_t count) {
  auto* holder = new SharedParameters(parameters);
  const float* begin = parameters->data() + offset;
  return {const_cast<float*>(begin), static_cast<size_t>(count) * sizeof(float),
          [](void* held) { delete static_cast<SharedParameters*>(held); }, holder};
}

class GrpcPsService final : public PsService {
 public:
  GrpcPsService(const PsServiceOptions& options, const Clock& clock)
      : exchange_(options.token, options.events, clock) {}
  ~GrpcPsService() override { Shutdown(); }

  absl::Status Open(const PsServiceOptions& options);

  Endpoint endpoint() const override { return endpoint_; }
  absl::Status Configure(const PsServerConfig& config) override {
    MutexLock lock(&mu_);
    return exchange_.Configure(config);
  }
  PsCounters counters() const override {
    MutexLock lock(&mu_);
    return exchange_.counters();
  }
  Traffic traffic() const override {
    MutexLock lock(&mu_);
    return exchange_.traffic();
  }
  Traffic unreported() const override {
    MutexLock lock(&mu_);
    return exchange_.unreported();
  }
  void Shutdown() override;

 private:
  void Poll();
  void On(const Tag& tag, bool ok) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnAccepted(ServerStream* stream, bool ok) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnRead(ServerStream* stream, bool ok) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Distribute() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AcceptNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ReadNext(ServerStream* stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WriteNext(ServerStream* stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FinishIfDone(ServerStream* stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  RawService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  Endpoint endpoint_;
  std::thread thread_;

  mutable Mutex mu_;
  Exchange exchange_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, std::unique_ptr<ServerStream>> streams_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<ServerStream> accepting_ ABSL_GUARDED_BY(mu_);
  int64_t next_stream_ ABSL_GUARDED_BY(mu_) = 1;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;  // no operation may start
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

absl::Status GrpcPsService::Open(const PsServiceOptions& options) {
  // gRPC says only that it failed; a socket of our own says why.
  RETURN_IF_ERROR(Annotate(Listen({options.host, 0}).status(), "parameter server"));

  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  for (const auto& [name, value] : ChannelSettings(options.frame_bytes_max)) {
    builder.AddChannelArgument(name, value);
  }
  // Floats do not shrink, and a small compressed message could unpack to any size.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  // Health and reflection are answered by this one thread; the exchange has its own.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
  int port = 0;
  builder.AddListeningPort(Endpoint{options.host, 0}.ToString(), grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&service_);
  queue_ = builder.AddCompletionQueue();
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port == 0) {
    return absl::InternalError(
        absl::StrCat("parameter server: gRPC cannot listen on ", options.host));
  }
  endpoint_ = {options.host, static_cast<uint16_t>(port)};
  {
    MutexLock lock(&mu_);
    AcceptNext();
  }
  thread_ = std::thread([this] { Poll(); });
  return absl::OkStatus();
}

void GrpcPsService::Poll() {
  for (;;) {
    void* tag = nullptr;
    bool ok = false;
    const auto next = queue_->AsyncNext(&tag, &ok, AfterMs(kTickMs));
    if (next == grpc::CompletionQueue::SHUTDOWN) return;
    MutexLock lock(&mu_);
    if (next == grpc::CompletionQueue::GOT_EVENT) On(*static_cast<Tag*>(tag), ok);
    if (stopping_) continue;
    exchange_.Tick();
    Distribute();
  }
}

void GrpcPsService::On(const Tag& tag, bool ok) {
  ServerStream* stream = tag.stream;
  switch (tag.op) {
    case Op::kAccept:
      OnAccepted(stream, ok);
      return;
    case Op::kRead:
      stream->reading = false;
      OnRead(stream, ok);
      break;
    case Op::kWrite:
      stream->writing = false;
      if (ok) {
        exchange_.Sent(stream->in_flight, stream->in_flight_complete);
      } else {
        stream->broken = true;
      }
      WriteNext(stream);
      break;
    case Op::kFinish:
      stream->finishing = false;
      break;
  }
  FinishIfDone(stream);
  if (stream->idle() && (stream->finished || stopping_)) {
    exchange_.Closed(stream->id);
    streams_.erase(stream->id);
  }
}

void GrpcPsService::OnAccepted(ServerStream* stream, bool ok) {
  std::unique_ptr<ServerStream> accepted = std::move(accepting_);
  CHECK(accepted.get() == stream);
  if (!ok || stopping_) return;
  AcceptNext();
  const auto& metadata = stream->context.client_metadata();
  const auto token = metadata.find(kTokenMetadata);
  stream->id = next_stream_++;
  exchange_.Opened(stream->id, token == metadata.end()
                                   ? std::string()
                                   : std::string(token->second.data(), token->second.size()));
  ReadNext(stream);
  streams_.emplace(stream->id, std::move(accepted));
}

void GrpcPsService::OnRead(ServerStream* stream, bool ok) {
  ReceivedBytes received;
  if (!ok || !Unpack(stream->incoming, &received)) {
    stream->broken = true;
    exchange_.Closed(stream->id);
    return;
  }
  exchange_.Received(stream->id, received.pieces);
  stream->incoming.Clear();
  ReadNext(stream);
}

void GrpcPsService::Distribute() {
  for (auto& [id, outgoing] : exchange_.TakeOutgoing()) {
    const auto found = streams_.find(id);
    if (found == streams_.end()) continue;
    found->second->queue.push_back(std::move(outgoing));
    WriteNext(found->second.get());
  }
}

void GrpcPsService::AcceptNext() {
  accepting_ = std::make_unique<ServerStream>();
  service_.RequestExchange(&accepting_->context, &accepting_->io, queue_.get(), queue_.get(),
                           &accepting_->accept);
}

void GrpcPsService::ReadNext(ServerStream* stream) {
  if (stopping_ || stream->broken || stream->finished) return;
  stream->reading = true;
  stream->io.Read(&stream->incoming, &stream->read);
}

void GrpcPsService::WriteNext(ServerStream* stream) {
  if (stopping_ || stream->broken || stream->finished || stream->writing || stream->queue.empty()) {
    return;
  }
  Outgoing& front = stream->queue.front();
  grpc::Slice payload;
  bool complete = true;
  if (front.parameters != nullptr) {
    const auto total = static_cast<int64_t>(front.parameters->size());
    const int64_t count = std::min(exchange_.chunk_bytes() / 4, total - stream->sent);
    payload = SliceOf(front.parameters, stream->sent, count);
    front.header.set_offset(stream->sent);
    stream->sent += count;
    complete = stream->sent == total;
  } else if (!front.payload.empty()) {
    payload = grpc::Slice(front.payload);
  }
  const grpc::ByteBuffer buffer = MakeBuffer(front.header, payload);
  stream->writing = true;
  stream->in_flight = front.header;
  stream->in_flight_complete = complete;
  exchange_.Sending(front.header, static_cast<int64_t>(buffer.Length()), complete, stream->id);
  stream->io.Write(buffer, &stream->write);
  if (!complete) return;
  stream->last_written = front.last;
  stream->queue.pop_front();
  stream->sent = 0;
}

void GrpcPsService::FinishIfDone(ServerStream* stream) {
  const bool done = stream->broken || stream->last_written;
  if (stopping_ || stream->finished || !done || stream->writing) return;
  stream->finished = true;
  stream->finishing = true;
  stream->io.Finish(grpc::Status::OK, &stream->finish);
}

void GrpcPsService::Shutdown() {
  {
    MutexLock lock(&mu_);
    if (stopped_) return;
    stopped_ = true;
    stopping_ = true;
  }
  if (server_ != nullptr) server_->Shutdown(AfterMs(0));
  if (queue_ != nullptr) queue_->Shutdown();
  if (thread_.joinable()) thread_.join();
  MutexLock lock(&mu_);
  exchange_.Report();
}

}  // namespace

absl::StatusOr<std::unique_ptr<PsService>> PsService::Start(const PsServiceOptions& options,
                                                            const Clock& clock) {
  auto service = std::make_unique<GrpcPsService>(options, clock);
  RETURN_IF_ERROR(service->Open(options));
  return std::unique_ptr<PsService>(std::move(service));
}

}  // namespace lockstep
