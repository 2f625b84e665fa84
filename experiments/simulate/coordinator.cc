#include "experiments/simulate/coordinator.h"

#include <utility>

#include "base/check.h"

namespace lockstep {
namespace {

constexpr int64_t kTickMs = 50;
constexpr int64_t kTickTimer = 1;

}  // namespace

SimCoordinator::SimCoordinator(const SimContext& self, const MembershipConfig& config,
                               Events events)
    : self_(self), membership_(config, self.NowNs()), events_(std::move(events)) {}

void SimCoordinator::OnStart() { OnTimer(kTickTimer); }

void SimCoordinator::OnTimer(int64_t timer) {
  Perform(membership_.OnTick(LeaseNowNs()));
  self_.After(static_cast<double>(kTickMs * kNsPerMs), timer);
}

void SimCoordinator::OnMessage(int64_t stream, const std::string& bytes) {
  MemberEvent event;
  CHECK(event.ParseFromString(bytes)) << bytes.size() << " bytes from a member";
  Perform(membership_.OnEvent(stream, event, LeaseNowNs()));
}

void SimCoordinator::OnClosed(int64_t stream) {
  Perform(membership_.OnClosed(stream, LeaseNowNs()));
}

void SimCoordinator::Perform(const std::vector<Effect>& effects) {
  for (const Effect& effect : effects) {
    switch (effect.kind) {
      case Effect::Kind::kSend:
        events_.command(effect.command);
        self_.Send(effect.session, effect.command.SerializeAsString());
        break;
      case Effect::Kind::kClose:
        self_.Close(effect.session);
        break;
      case Effect::Kind::kLine:
        events_.line(effect.line);
        break;
      case Effect::Kind::kManifest:  // nothing reads it
        break;
      case Effect::Kind::kSpawn:
        events_.spawn(effect.member);
        break;
    }
  }
}

}  // namespace lockstep
