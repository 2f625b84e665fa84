#include "base/member/member.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/member/group_state.h"
#include "base/member/limits_proto.h"
#include "base/member/version.h"
#include "base/status.h"
#include "base/sync.h"
#include "proto/coordinator.grpc.pb.h"

namespace lockstep {
namespace {

constexpr int64_t kAbortPollMs = 20;
constexpr int64_t kForeverMs = 10'000 * kDayMs;

class StreamMember final : public Member {
 public:
  StreamMember(const MemberOptions& options, Abort* abort)
      : options_(options),
        abort_(abort),
        limits_(options.limits),
        group_(options.coordinator),
        group_abort_(std::make_unique<Abort>(abort)) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY,
                     0);  // proxy variables must not capture cluster traffic
    channel_ = grpc::CreateCustomChannel(options.coordinator, grpc::InsecureChannelCredentials(),
                                         arguments);
    stub_ = lockstep::Coordinator::NewStub(channel_);
  }

  ~StreamMember() override {
    {
      MutexLock lock(&mu_);
      leaving_ = true;
    }
    context_.TryCancel();
    if (reader_.joinable()) reader_.join();
    if (beater_.joinable()) beater_.join();
  }

  absl::Status Enter() {
    last_heard_ns_ = clock_.NowNs();
    MemberEvent event;
    lockstep::Join* join = event.mutable_join();
    join->set_role(options_.role);
    join->set_index(options_.index);
    join->set_build(BuildId());
    join->set_protocol(kProtocol);
    join->set_endpoint(options_.endpoint);
    join->set_pid(getpid());
    join->set_host(HostName());
    join->set_token(options_.token);
    join->set_world_size(options_.world_size);
    join->set_device(options_.device.device);
    join->set_math(options_.device.math);
    reader_ = std::thread([this, event] { Talk(event); });
    RETURN_IF_ERROR(
        Await([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return group_.accepted(); },
              options_.limits.join_timeout_ms,
              absl::StrCat("no answer from the coordinator at ", options_.coordinator)));
    beater_ = std::thread([this] { Beat(); });
    return AwaitStart(limits_.join_timeout_ms, "waiting for the other members to join");
  }

  const Start& start() const override { return start_; }
  const Abort& group_abort() const override { return *group_abort_; }

  absl::Status Connected() override {
    MemberEvent event;
    event.mutable_connected();
    Send(event);
    return Await([this]()
                     ABSL_NO_THREAD_SAFETY_ANALYSIS { return group_.go() || !group_.dead().ok(); },
                 limits_.connect_timeout_ms + limits_.sync_timeout_ms + limits_.lease_ms,
                 "waiting for the other members to connect");
  }

  bool MayRebuild(const absl::Status& status) const override {
    MutexLock lock(&mu_);
    return abort_->status().ok() && group_.MayRebuild(status);
  }

  absl::Status Rebuild(const absl::Status& cause, int64_t step, const std::string& endpoint,
                       const std::vector<ShardHeld>& held) override {
    MemberEvent event;
    lockstep::Broken* broken = event.mutable_broken();
    {
      MutexLock lock(&mu_);
      broken->set_epoch(group_.epoch());
      group_.Break();
    }
    broken->set_step(step);
    broken->set_endpoint(endpoint);
    for (const ShardHeld& shard : held) *broken->add_held() = shard;
    broken->set_code(static_cast<int>(cause.code()));
    broken->set_message(absl::StrCat(cause.message()));
    for (const std::string& member : BlamedBy(cause)) broken->add_blamed(member);
    Send(event);
    return AwaitStart(limits_.rebuild_timeout_ms, "waiting for the group to be rebuilt");
  }

  void GiveUpGroup(int64_t epoch, const absl::Status& cause) override {
    MutexLock lock(&mu_);
    if (group_.GiveUp(epoch, cause)) group_abort_->Request(group_.dead());
  }

  void Tell(const MemberEvent& event) override { Send(event); }

  void FinishedStep(int64_t step) override { step_ = step; }

  absl::Status Done(int64_t step) override {
    step_ = step;
    MemberEvent event;
    event.mutable_done()->set_step(step);
    Send(event);
    return AwaitStop();
  }

  absl::Status AwaitStop() override {
    // The lease bounds this wait: the coordinator's silence requests the abort that ends it.
    return Await(
        [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return group_.stopped() || !group_.dead().ok(); },
        kForeverMs, "waiting for the end of the run");
  }

  // The group may die meanwhile: that is no concern of one that leaves.
  absl::Status Leave(int64_t step) override {
    MemberEvent event;
    event.mutable_departing()->set_step(step);
    Send(event);
    return Await([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return group_.stopped(); },
                 limits_.sync_timeout_ms, "waiting for leave to go");
  }

  bool left() const override {
    MutexLock lock(&mu_);
    return group_.left();
  }

  void Fail(const absl::Status& status, int64_t step) override {
    MemberEvent event;
    lockstep::Failed* failed = event.mutable_failed();
    failed->set_code(static_cast<int>(status.code()));
    failed->set_message(absl::StrCat(status.message()));
    failed->set_step(step);
    failed->set_consequence(status.code() == absl::StatusCode::kUnavailable ||
                            status.code() == absl::StatusCode::kDeadlineExceeded ||
                            status.code() == absl::StatusCode::kAborted ||
                            status.code() == absl::StatusCode::kCancelled);
    for (const std::string& member : BlamedBy(status)) failed->add_blamed(member);
    Send(event);
    MutexLock lock(&mu_);
    mu_.AwaitFor([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return group_.stopped() || ended_; },
                 limits_.stop_grace_ms);
  }

 private:
  absl::Status AwaitStart(int64_t timeout_ms, const std::string& what) {
    RETURN_IF_ERROR(Await([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return group_.started(); },
                          timeout_ms + limits_.lease_ms, what));
    MutexLock lock(&mu_);
    start_ = group_.start();
    return absl::OkStatus();
  }

  // Looks at the abort every kAbortPollMs: a lock can't be polled together with it. A dead group
  // is an error unless `condition` waits for the next one.
  template <typename Condition>
  absl::Status Await(const Condition& condition, int64_t timeout_ms, const std::string& what) {
    const int64_t deadline_ns = clock_.NowNs() + timeout_ms * kNsPerMs;
    MutexLock lock(&mu_);
    const auto over = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return condition() || ended_ || !lost_.ok() || !group_.failure().ok();
    };
    while (!mu_.AwaitFor(over, kAbortPollMs)) {
      RETURN_IF_ERROR(abort_->status());
      if (clock_.NowNs() < deadline_ns) continue;
      return absl::DeadlineExceededError(
          absl::StrCat(what, ": nothing within ", timeout_ms, " ms"));
    }
    RETURN_IF_ERROR(group_.failure());
    RETURN_IF_ERROR(lost_);
    if (condition()) return group_.stopped() ? absl::OkStatus() : group_.dead();
    return absl::UnavailableError(
        absl::StrCat("the coordinator at ", options_.coordinator, " is gone (", what, ")"));
  }

  void Send(const MemberEvent& event) {
    MutexLock lock(&write_mu_);
    stream_->Write(event);  // a failed write means the stream is over; ReadCommands sees that
  }

  // Opening the stream waits for the connection, so it must not happen where the abort is looked
  // at: an address that does not answer takes gRPC 20 s.
  void Talk(const MemberEvent& join) {
    stream_ = stub_->Member(&context_);
    Send(join);
    ReadCommands();
  }

  void ReadCommands() {
    Command command;
    while (stream_->Read(&command)) {
      last_heard_ns_ = clock_.NowNs();
      Obey(command);
    }
    const grpc::Status status = stream_->Finish();
    MutexLock lock(&mu_);
    ended_ = true;
    if (group_.stopped() || leaving_) return;
    if (group_.failure().ok() && lost_.ok()) {
      lost_ = absl::UnavailableError(absl::StrCat("lost the coordinator at ", options_.coordinator,
                                                  ": ", status.error_message()));
    }
    abort_->Request(group_.failure().ok() ? lost_ : group_.failure());
  }

  void Obey(const Command& command) {
    MutexLock lock(&mu_);
    const bool accepted = group_.accepted();
    switch (group_.Take(command)) {
      case GroupState::News::kAccepted:
        if (!accepted) limits_ = LimitsFrom(command.accepted().limits());
        break;
      case GroupState::News::kStarted:
        // Nothing uses the old one: this Start answers the report that the old group is dead.
        group_abort_ = std::make_unique<Abort>(abort_);
        break;
      case GroupState::News::kGroupDead:
        group_abort_->Request(group_.dead());
        break;
      case GroupState::News::kEnded:
        if (group_.stopped() && !group_.failure().ok()) abort_->Request(group_.failure());
        break;
      default:
        break;
    }
  }

  // Sends signs of life and watches the coordinator's.
  void Beat() {
    while (true) {
      {
        MutexLock lock(&mu_);
        const auto over = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return leaving_ || ended_; };
        if (mu_.AwaitFor(over, limits_.heartbeat_ms)) return;
        const int64_t silence_ms = (clock_.NowNs() - last_heard_ns_) / kNsPerMs;
        if (silence_ms > limits_.lease_ms && !group_.stopped()) {
          lost_ = absl::UnavailableError(absl::StrCat("the coordinator at ", options_.coordinator,
                                                      " was silent for ", silence_ms,
                                                      " ms (lease_ms ", limits_.lease_ms, ")"));
          abort_->Request(lost_);
          context_.TryCancel();
          return;
        }
      }
      MemberEvent event;
      event.mutable_beat()->set_step(step_);
      Send(event);
    }
  }

  const MemberOptions options_;
  Abort* const abort_;
  const MonotonicClock clock_;
  std::shared_ptr<grpc::Channel> channel_;  // shared: gRPC's own interface
  std::unique_ptr<lockstep::Coordinator::Stub> stub_;
  grpc::ClientContext context_;
  // Set by reader_, and used by others once a command has come through it.
  std::unique_ptr<grpc::ClientReaderWriter<MemberEvent, Command>> stream_;
  std::thread reader_;
  std::thread beater_;
  std::atomic<int64_t> step_ = 0;
  std::atomic<int64_t> last_heard_ns_ = 0;

  Mutex write_mu_;  // one writer at a time on the stream
  mutable Mutex mu_;
  Limits limits_;  // written before the beater starts, by Obey; read-only afterwards
  GroupState group_ ABSL_GUARDED_BY(mu_);
  // Replaced by reader_ while nobody uses it: before the first Start and in Rebuild.
  std::unique_ptr<Abort> group_abort_;
  lockstep::Start start_;  // a copy of group_'s, for the caller's thread
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  bool leaving_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status lost_ ABSL_GUARDED_BY(mu_);  // the coordinator
};

}  // namespace

std::string HostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string BuildId() { return LOCKSTEP_BUILD_ID; }

ToolInfo DescribeTool() {
  ToolInfo tool;
  tool.set_version(LOCKSTEP_VERSION);
  tool.set_git(LOCKSTEP_GIT);
  tool.set_build(LOCKSTEP_BUILD);
  return tool;
}

absl::StatusOr<std::unique_ptr<Member>> Member::Join(const MemberOptions& options, Abort* abort) {
  auto member = std::make_unique<StreamMember>(options, abort);
  RETURN_IF_ERROR(member->Enter());
  return member;
}

}  // namespace lockstep
