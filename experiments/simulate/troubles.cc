#include "experiments/simulate/troubles.h"

#include <utility>

namespace lockstep {
namespace {

constexpr double kNsPerMsD = 1e6;
constexpr int kFlaps = 3;

}  // namespace

Troubles::Troubles(const Plan& plan, SimWorld* world, Cluster cluster)
    : plan_(plan), world_(*world), cluster_(std::move(cluster)), struck_(plan.size(), false) {}

void Troubles::Begin() {
  for (const Disturbance& each : plan_) {
    if (each.after_loss == 0) Schedule(each);
  }
}

void Troubles::GroupIsDead() {
  ++deaths_;
  for (const Disturbance& each : plan_) {
    if (each.after_loss == deaths_) Schedule(each);
  }
}

void Troubles::Schedule(const Disturbance& each) {
  if (each.trouble == Trouble::kCrashPoint) return;
  world_.At(world_.now_ns() + each.at_ms * kNsPerMsD, [this, &each] { Strike(each); });
}

bool Troubles::Strikes(int32_t server, CrashPoint point, int64_t step) {
  for (size_t i = 0; i < plan_.size(); ++i) {
    const Disturbance& each = plan_[i];
    const bool here = each.trouble == Trouble::kCrashPoint && each.target.index == server &&
                      each.point == point && step >= each.step && !struck_[i];
    if (!here) continue;
    struck_[i] = true;
    return true;
  }
  return false;
}

void Troubles::Strike(const Disturbance& each) {
  const int64_t process = cluster_.process(each.target);
  const int64_t peer = cluster_.process(each.peer);
  if (process == 0 || peer == 0) return;
  const int32_t host = world_.host(process);
  const double until_ns = world_.now_ns() + each.for_ms * kNsPerMsD;
  switch (each.trouble) {
    case Trouble::kKill:
      return world_.Kill(process, "was killed by SIGKILL");
    case Trouble::kHost:
      lost_hosts_.insert(host);
      return world_.LoseHost(host);
    case Trouble::kFreeze:
      return world_.Freeze(process, until_ns);
    case Trouble::kSlowNode:
      return world_.SlowDown(process, each.amount, until_ns);
    case Trouble::kGray:
      return Gray(each, host, until_ns);
    case Trouble::kClog:
      return world_.network().Clog(host, each.for_ms * kNsPerMsD);
    case Trouble::kDuplicate:
      return cluster_.duplicate(each.target.index, static_cast<int64_t>(each.amount));
    case Trouble::kDiskFull:
      return cluster_.disk->Refuse(each.target.index, static_cast<int64_t>(each.amount),
                                   absl::ResourceExhaustedError("No space left on device"));
    case Trouble::kSyncFails:
      return cluster_.disk->Refuse(each.target.index, static_cast<int64_t>(each.amount),
                                   absl::InternalError("fdatasync: Input/output error"));
    case Trouble::kTruncate:
      return cluster_.disk->DamageNewest(each.target.index, each.amount, /*flips=*/false);
    case Trouble::kFlipBit:
      return cluster_.disk->DamageNewest(each.target.index, each.amount, /*flips=*/true);
    case Trouble::kDrift:
      return world_.SetClockRate(host, each.amount);
    case Trouble::kWallJump:
      return world_.JumpWallClock(host, static_cast<int64_t>(each.amount * kNsPerMsD));
    case Trouble::kCrashPoint:
      return;
    default:
      return BetweenHosts(each, host, world_.host(peer), until_ns);
  }
}

void Troubles::BetweenHosts(const Disturbance& each, int32_t a, int32_t b, double until_ns) {
  if (a == b) return;  // a process and its neighbour on one host: there is no link
  SimNetwork& network = world_.network();
  switch (each.trouble) {
    case Trouble::kPartition:
      network.Cut(b, a, /*data_only=*/false, until_ns);
      [[fallthrough]];
    case Trouble::kCut:
      return network.Cut(a, b, /*data_only=*/false, until_ns);
    case Trouble::kFlap:
      for (int i = 0; i < kFlaps; ++i) {
        const double piece_ns = each.for_ms * kNsPerMsD / (2 * kFlaps - 1);
        world_.At(world_.now_ns() + 2 * i * piece_ns, [this, a, b, piece_ns] {
          world_.network().Cut(a, b, /*data_only=*/false, world_.now_ns() + piece_ns);
          world_.network().Cut(b, a, /*data_only=*/false, world_.now_ns() + piece_ns);
        });
      }
      return;
    case Trouble::kDelay:
      return network.Slow(a, b, /*data_only=*/false, {each.amount * kNsPerMsD, false}, until_ns);
    case Trouble::kReorder:
      network.Slow(b, a, /*data_only=*/false, {each.amount * kNsPerMsD, true}, until_ns);
      return network.Slow(a, b, /*data_only=*/false, {each.amount * kNsPerMsD, true}, until_ns);
    case Trouble::kBreak:
      network.Break(a, b);
      return;
    default:
      return;
  }
}

// Signs of life go on; data from and to the host is slow, or does not move.
void Troubles::Gray(const Disturbance& each, int32_t host, double until_ns) {
  SimNetwork& network = world_.network();
  for (const int32_t other : network.hosts()) {
    if (other == host) continue;
    for (const auto& [from, to] : {std::pair(host, other), std::pair(other, host)}) {
      if (each.amount == 0) {
        network.Cut(from, to, /*data_only=*/true, until_ns);
      } else {
        network.Slow(from, to, /*data_only=*/true, {each.amount * kNsPerMsD, false}, until_ns);
      }
    }
  }
}

}  // namespace lockstep
