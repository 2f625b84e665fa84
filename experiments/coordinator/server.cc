#include "experiments/coordinator/server.h"

#include <grpcpp/grpcpp.h>

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/socket.h"
#include "base/status.h"
#include "base/sync.h"
#include "proto/coordinator.grpc.pb.h"

namespace lockstep {
namespace {

using MemberStream = grpc::ServerReaderWriter<Command, MemberEvent>;

class GrpcCoordinator final : public CoordinatorServer, public lockstep::Coordinator::Service {
 public:
  GrpcCoordinator(const MembershipConfig& config, const Clock& clock)
      : clock_(clock),
        stop_grace_ms_(config.limits.stop_grace_ms),
        membership_(config, clock.NowNs()) {}

  ~GrpcCoordinator() override {
    // Streams still open then are cancelled: nobody listens longer than the run.
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(stop_grace_ms_));
  }

  absl::Status Serve(const Endpoint& endpoint) {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddListeningPort(endpoint.ToString(), grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) {
      // gRPC does not say why; binding it ourselves does.
      RETURN_IF_ERROR(Annotate(::lockstep::Listen(endpoint).status(), "coordinator"));
      return absl::FailedPreconditionError(
          absl::StrCat("coordinator: cannot listen on ", endpoint.ToString()));
    }
    endpoint_ = Endpoint{endpoint.host, static_cast<uint16_t>(port)}.ToString();
    return absl::OkStatus();
  }

  grpc::Status Member(grpc::ServerContext* /*context*/, MemberStream* stream) override {
    int64_t session = 0;
    {
      MutexLock lock(&mu_);
      session = next_session_++;
      sessions_[session] = {.stream = stream};
    }
    MemberEvent event;
    bool open = true;
    while (open && stream->Read(&event)) {
      MutexLock lock(&mu_);
      Perform(membership_.OnEvent(session, event, clock_.NowNs()));
      open = !sessions_[session].closing;
    }
    MutexLock lock(&mu_);
    sessions_.erase(session);
    Perform(membership_.OnClosed(session, clock_.NowNs()));
    return grpc::Status::OK;
  }

  std::string endpoint() const override { return endpoint_; }

  void Tick() override {
    MutexLock lock(&mu_);
    Perform(membership_.OnTick(clock_.NowNs()));
  }
  void OnExit(const MemberExit& exit) override {
    MutexLock lock(&mu_);
    Perform(membership_.OnExit(exit, clock_.NowNs()));
  }
  void RequestStop(const absl::Status& reason) override {
    MutexLock lock(&mu_);
    Perform(membership_.OnStopRequested(reason, clock_.NowNs()));
  }
  bool stopping() const override {
    MutexLock lock(&mu_);
    return membership_.stopping();
  }
  bool running() const override {
    MutexLock lock(&mu_);
    return membership_.running();
  }
  absl::Status outcome() const override {
    MutexLock lock(&mu_);
    return membership_.outcome();
  }
  std::vector<Failure> failures() const override {
    MutexLock lock(&mu_);
    return membership_.failures();
  }
  int64_t step() const override {
    MutexLock lock(&mu_);
    return membership_.step();
  }
  bool Spares(const MemberId& member, int64_t pid) const override {
    MutexLock lock(&mu_);
    return membership_.Spares(member, pid);
  }
  std::vector<MemberId> TakeSpawns() override {
    MutexLock lock(&mu_);
    return std::exchange(spawns_, {});
  }
  std::optional<std::string> TakeManifest() override {
    MutexLock lock(&mu_);
    return std::exchange(manifest_, std::nullopt);
  }
  std::vector<std::string> TakeLines() override {
    MutexLock lock(&mu_);
    return std::exchange(lines_, {});
  }

 private:
  struct Session {
    MemberStream* stream = nullptr;
    bool closing = false;
  };

  // Writes under the lock: commands are a few bytes, so the kernel takes them even for a frozen
  // member.
  void Perform(const std::vector<Effect>& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (const Effect& effect : effects) {
      if (effect.kind == Effect::Kind::kLine) {
        lines_.push_back(effect.line);
        continue;
      }
      if (effect.kind == Effect::Kind::kManifest) {
        manifest_ = effect.line;
        continue;
      }
      if (effect.kind == Effect::Kind::kSpawn) {
        spawns_.push_back(effect.member);
        continue;
      }
      const auto session = sessions_.find(effect.session);
      if (session == sessions_.end()) continue;
      if (effect.kind == Effect::Kind::kClose) {
        session->second.closing = true;
      } else {
        session->second.stream->Write(effect.command);  // a broken stream ends its Read loop
      }
    }
  }

  const Clock& clock_;
  const int64_t stop_grace_ms_;
  std::string endpoint_;
  mutable Mutex mu_;
  Membership membership_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, Session> sessions_ ABSL_GUARDED_BY(mu_);
  int64_t next_session_ ABSL_GUARDED_BY(mu_) = 1;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mu_);
  std::vector<MemberId> spawns_ ABSL_GUARDED_BY(mu_);
  std::optional<std::string> manifest_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorServer>> CoordinatorServer::Listen(
    const Endpoint& endpoint, const MembershipConfig& config, const Clock& clock) {
  auto coordinator = std::make_unique<GrpcCoordinator>(config, clock);
  RETURN_IF_ERROR(coordinator->Serve(endpoint));
  return coordinator;
}

}  // namespace lockstep
