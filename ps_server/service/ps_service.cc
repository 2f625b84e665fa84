#include "ps_server/service/ps_service.h"

#include <grpcpp/grpcpp.h>

#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/sync.h"
#include "ps_server/service/call.h"
#include "ps_server/service/onlookers.h"
#include "ps_server/wire/grpc_frame.h"

namespace lockstep {
namespace {

// How late a timeout may be seen, and how long Configure may wait for the polling thread.
constexpr int64_t kTickMs = 10;

class GrpcPsService final : public PsService {
 public:
  GrpcPsService(const PsServiceOptions& options, const Clock& clock)
      : token_(options.token),
        frame_bytes_max_(options.frame_bytes_max),
        clock_(clock),
        onlookers_(clock),
        exchange_(options.token, options.events, clock) {
    exchange_.set_crash_hook(options.crash);
  }
  ~GrpcPsService() override { Shutdown(); }

  absl::Status Open(const PsServiceOptions& options);

  Endpoint endpoint() const override { return endpoint_; }
  absl::Status Configure(PsServerConfig config) override {
    MutexLock lock(&mu_);
    return exchange_.Configure(std::move(config));
  }
  std::vector<HeldShard> Leave(const absl::Status& cause) override {
    MutexLock lock(&mu_);
    return exchange_.Leave(cause);
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
  void On(const Call::Tag& tag, bool ok) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnAccepted(bool ok) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnRead(Call* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Distribute() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AcceptNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WriteNext(Call* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string token_;
  const int64_t frame_bytes_max_;
  const Clock& clock_;
  Onlookers onlookers_;  // of the polling thread
  AcceptedCall::Service service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  Endpoint endpoint_;
  std::thread thread_;

  mutable Mutex mu_;
  Exchange exchange_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, std::unique_ptr<Call>> calls_ ABSL_GUARDED_BY(mu_);  // by stream
  std::unique_ptr<AcceptedCall> accepting_ ABSL_GUARDED_BY(mu_);
  int64_t next_stream_ ABSL_GUARDED_BY(mu_) = 1;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;  // no operation may start
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

absl::Status GrpcPsService::Open(const PsServiceOptions& options) {
  // gRPC says only that it failed; a socket of our own says why.
  RETURN_IF_ERROR(Annotate(Listen({options.host, 0}).status(), "parameter server"));

  grpc::ServerBuilder builder;
  for (const auto& [name, value] : ChannelSettings(options.frame_bytes_max)) {
    builder.AddChannelArgument(name, value);
  }
  // Floats do not shrink, and a small compressed message could unpack to any size.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  int port = 0;
  builder.AddListeningPort(Endpoint{options.host, 0}.ToString(), grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&service_);
  queue_ = builder.AddCompletionQueue();
  onlookers_.Register(&builder);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port == 0) {
    return absl::InternalError(
        absl::StrCat("parameter server: gRPC cannot listen on ", options.host));
  }
  endpoint_ = {options.host, static_cast<uint16_t>(port)};
  onlookers_.Start();
  {
    MutexLock lock(&mu_);
    AcceptNext();
  }
  thread_ = std::thread([this] { Poll(); });
  return absl::OkStatus();
}

void GrpcPsService::Poll() {
  int64_t looked_ns = 0;
  for (;;) {
    void* tag = nullptr;
    bool ok = false;
    const auto next = queue_->AsyncNext(&tag, &ok, AfterNs(kTickMs * kNsPerMs));
    if (next == grpc::CompletionQueue::SHUTDOWN) return;
    // Not with every event: a null step has several.
    const int64_t now_ns = clock_.NowNs();
    const bool look = now_ns - looked_ns >= kTickMs * kNsPerMs;
    if (look) {
      looked_ns = now_ns;
      onlookers_.Poll();
    }
    MutexLock lock(&mu_);
    if (next == grpc::CompletionQueue::GOT_EVENT) On(*static_cast<Call::Tag*>(tag), ok);
    if (stopping_) continue;
    if (look) exchange_.Tick();
    Distribute();
  }
}

void GrpcPsService::On(const Call::Tag& tag, bool ok) {
  Call* call = tag.call;
  if (call == accepting_.get()) return OnAccepted(ok);
  call->OnDone(tag.op, ok);
  if (tag.op == Call::Op::kRead && ok) OnRead(call);
  if (tag.op == Call::Op::kWrite && ok) {
    exchange_.Sent(call->in_flight().header, call->in_flight().complete);
  }
  if (call->broken()) exchange_.Closed(call->id());
  WriteNext(call);
  call->FinishIfDone();
  if (!call->over()) return;
  exchange_.Closed(call->id());
  calls_.erase(call->id());
}

void GrpcPsService::OnAccepted(bool ok) {
  std::unique_ptr<AcceptedCall> accepted = std::move(accepting_);
  if (!ok || stopping_) return;
  AcceptNext();
  exchange_.Opened(accepted->id(), accepted->token());
  accepted->OnDone(Call::Op::kStart, ok);
  calls_.emplace(accepted->id(), std::move(accepted));
}

void GrpcPsService::OnRead(Call* call) {
  const auto received = std::make_shared<ReceivedBytes>();
  // What gRPC cannot unpack is no frame either.
  if (!Unpack(call->incoming(), received.get())) received->pieces.clear();
  exchange_.Received(call->id(), received->pieces, received);
  Distribute();  // first, so that no reply waits for what the next read costs
  call->ReadNext();
}

void GrpcPsService::Distribute() {
  for (const Dial& dial : exchange_.TakeDials()) {
    calls_.emplace(dial.stream, std::make_unique<DialedCall>(dial.stream, dial.endpoint, token_,
                                                             frame_bytes_max_, queue_.get()));
  }
  for (auto& [id, outgoing] : exchange_.TakeOutgoing()) {
    const auto found = calls_.find(id);
    if (found == calls_.end()) continue;
    found->second->Queue(std::move(outgoing));
    WriteNext(found->second.get());
  }
}

void GrpcPsService::AcceptNext() {
  accepting_ = std::make_unique<AcceptedCall>(next_stream_++, &service_, queue_.get());
}

void GrpcPsService::WriteNext(Call* call) {
  const Call::Frame* const frame = call->WriteNext(exchange_.chunk_bytes());
  if (frame == nullptr) return;
  exchange_.Sending(frame->header, frame->bytes, frame->complete, call->id());
}

void GrpcPsService::Shutdown() {
  {
    MutexLock lock(&mu_);
    if (stopped_) return;
    stopped_ = true;
    stopping_ = true;
    exchange_.Stop();
    for (auto& [id, call] : calls_) call->Stop();
  }
  if (server_ != nullptr) server_->Shutdown(AfterNs(0));
  if (queue_ != nullptr) queue_->Shutdown();
  if (thread_.joinable()) thread_.join();
  onlookers_.Shutdown();
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
