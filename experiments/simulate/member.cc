#include "experiments/simulate/member.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/member/member.h"
#include "base/status.h"

namespace lockstep {

namespace {

constexpr char kSimHost[] = "process:";
std::string Address(int64_t process) { return absl::StrCat(kSimHost, process); }

}  // namespace

SimMember::SimMember(const SimContext& self, const SimMemberOptions& options)
    : self_(self), options_(options), group_("the simulated coordinator") {}

void SimMember::OnStart() {
  coordinator_stream_ = self_.Open(options_.coordinator, /*data=*/false);
  heard_ns_ = LeaseNowNs();
  MemberEvent event;
  Join* join = event.mutable_join();
  join->set_role(options_.role);
  join->set_index(options_.index);
  join->set_build(kSimBuild);
  join->set_protocol(kProtocol);
  join->set_endpoint(Address(self_.process()));
  join->set_pid(self_.process());
  Say(event);
  Beat();
}

void SimMember::Say(const MemberEvent& event) const {
  self_.Send(coordinator_stream_, event.SerializeAsString());
}

void SimMember::SayConnected() const {
  MemberEvent event;
  event.mutable_connected();
  Say(event);
}

void SimMember::Beat() {
  const int64_t silence_ms = (LeaseNowNs() - heard_ns_) / kNsPerMs;
  if (silence_ms > options_.limits.lease_ms) {
    return self_.Exit(
        /*clean=*/false,
        absl::StrCat("exited with code 3: the coordinator was silent for ", silence_ms, " ms"));
  }
  MemberEvent event;
  event.mutable_beat()->set_step(std::max<int64_t>(step(), 0));
  Say(event);
  self_.After(static_cast<double>(options_.limits.heartbeat_ms * kNsPerMs), kBeatTimer);
  const absl::Status late = CheckDeadlines();
  if (!late.ok()) GiveUp(late);
}

void SimMember::OnMessage(int64_t stream, const std::string& bytes) {
  if (stream != coordinator_stream_) return OnFrame(stream, bytes);
  Command command;
  CHECK(command.ParseFromString(bytes)) << bytes.size() << " bytes from the coordinator";
  heard_ns_ = LeaseNowNs();
  switch (group_.Take(command)) {
    case GroupState::News::kStarted:
      return OnGroup();
    case GroupState::News::kGo:
      return OnGo();
    case GroupState::News::kGroupDead:
      return GiveUp(group_.dead());
    case GroupState::News::kEnded:
      if (group_.failure().ok()) OnRunComplete();
      return self_.Exit(group_.failure().ok(), "exited after the coordinator's word");
    default:
      return;
  }
}

void SimMember::OnClosed(int64_t stream) {
  if (stream != coordinator_stream_) return OnStreamClosed(stream);
  self_.Exit(/*clean=*/false, "exited with code 3: its stream to the coordinator broke");
}

void SimMember::OnTimer(int64_t timer) {
  if (timer == kBeatTimer) return Beat();
  OnOwnTimer(timer);
}

void SimMember::GiveUp(const absl::Status& cause) {
  if (!group_.started()) return;
  if (!group_.MayRebuild(cause)) return Fail(cause);
  LeaveGroup(cause);
  MemberEvent event;
  Broken* broken = event.mutable_broken();
  broken->set_epoch(group_.epoch());
  broken->set_step(step());
  broken->set_endpoint(Address(self_.process()));
  broken->set_code(static_cast<int>(cause.code()));
  broken->set_message(absl::StrCat(cause.message()));
  for (const std::string& who : BlamedBy(cause)) broken->add_blamed(who);
  for (const ShardHeld& held : held()) *broken->add_held() = held;
  group_.Break();
  Say(event);
}

void SimMember::Fail(const absl::Status& status) {
  MemberEvent event;
  Failed* failed = event.mutable_failed();
  failed->set_code(static_cast<int>(status.code()));
  failed->set_message(absl::StrCat(status.message()));
  failed->set_step(step());
  failed->set_consequence(!BlamedBy(status).empty() || absl::IsUnavailable(status));
  for (const std::string& who : BlamedBy(status)) failed->add_blamed(who);
  Say(event);
  self_.Exit(/*clean=*/false,
             absl::StrCat("exited with its own failure: ", absl::StrCat(status.message())));
}

const MemberInfo* SimMember::InfoOf(Role role, int32_t index) const {
  for (const MemberInfo& info : group_.start().member()) {
    if (info.role() == role && info.index() == index) return &info;
  }
  return nullptr;
}

int64_t SimMember::ProcessOf(const MemberInfo& info) {
  int64_t process = 0;
  CHECK(absl::SimpleAtoi(absl::StripPrefix(info.endpoint(), kSimHost), &process))
      << info.endpoint();
  return process;
}

}  // namespace lockstep
