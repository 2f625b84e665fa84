#include "experiments/simulate/plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace lockstep {
namespace {

constexpr double kLongestShare = 0.55;  // of the lease: silence that nobody may be lost for
constexpr double kSilentShare = 0.65;   // of the lease: of all silences together
constexpr double kSlackShare = 0.05;
constexpr double kGrid = 5;  // ms: times of a shrunk plan are whole multiples

class Drawer {
 public:
  Drawer(const PlanOptions& options, uint64_t seed) : options_(options), random_(seed, 3) {}

  Plan Draw() {
    Plan plan;
    // Some plans end nobody, so that whatever ends then ends for nothing.
    const uint32_t losses = Below(4) == 0 ? 0 : 1 + Below(options_.losses_max);
    for (uint32_t i = 0; i < losses; ++i) plan.push_back(Loss());
    const uint32_t others = Below(options_.others_max + 1) + (losses == 0 ? 1 : 0);
    for (uint32_t i = 0; i < others; ++i) plan.push_back(Nuisance());
    // All but the first may come while the cluster recovers from an earlier one.
    for (size_t i = 1; i < plan.size(); ++i) {
      if (plan[i].trouble == Trouble::kCrashPoint || Below(2) == 0) continue;
      plan[i].after_loss = 1 + static_cast<int32_t>(Below(2));
      plan[i].at_ms = Between(0, 2.5 * options_.lease_ms);
    }
    return plan;
  }

 private:
  uint32_t Below(int32_t bound) { return random_.Below(static_cast<uint32_t>(std::max(1, bound))); }
  double Between(double least, double most) {
    return least + (most - least) * static_cast<double>(random_.Uniform());
  }

  TroubleTarget Member(bool servers, bool workers) {
    const bool server = servers && (!workers || Below(2) == 0);
    using Role = TroubleTarget::Role;
    return server ? TroubleTarget{Role::kServer, static_cast<int32_t>(Below(options_.servers))}
                  : TroubleTarget{Role::kWorker, static_cast<int32_t>(Below(options_.workers))};
  }
  TroubleTarget Peer(const TroubleTarget& target) {
    TroubleTarget peer = target;
    while (peer == target) {
      peer =
          Below(5) == 0 ? TroubleTarget{TroubleTarget::Role::kCoordinator, 0} : Member(true, true);
    }
    return peer;
  }
  Disturbance At(Trouble trouble, const TroubleTarget& target) {
    Disturbance each;
    each.trouble = trouble;
    each.target = target;
    each.at_ms = Between(0.1, 0.95) * options_.run_ms;
    return each;
  }

  // Ends somebody, or makes it seem so.
  Disturbance Loss() {
    const TroubleTarget target = Member(options_.lose_servers, options_.lose_workers);
    const bool server = target.role == TroubleTarget::Role::kServer;
    switch (Below(server ? 8 : 4)) {
      case 0:
        return At(Trouble::kKill, target);
      case 1:
        return At(Trouble::kHost, target);
      case 2: {
        Disturbance freeze = At(Trouble::kFreeze, target);
        freeze.for_ms = Between(1.2, 5) * options_.lease_ms;
        return freeze;
      }
      case 3: {
        Disturbance cut = At(Trouble::kPartition, target);
        cut.peer = {TroubleTarget::Role::kCoordinator, 0};
        // Replacements are started behind it as well, and there are three at most.
        cut.for_ms = Between(1.2, 2.2) * options_.lease_ms;
        return cut;
      }
      default: {
        Disturbance crash = At(Trouble::kCrashPoint, target);
        crash.at_ms = 0;
        crash.point = kCrashPoints[Below(static_cast<int32_t>(kCrashPoints.size()))].point;
        crash.step = Below(static_cast<int32_t>(options_.steps));
        return crash;
      }
    }
  }

  // Makes things worse without ending anybody; a stream may break.
  Disturbance Nuisance() {
    if (options_.snapshots && Below(4) == 0) return OfDisk();
    constexpr std::array<Trouble, 12> kTroubles = {
        Trouble::kFreeze, Trouble::kSlowNode,  Trouble::kCut,     Trouble::kGray,
        Trouble::kFlap,   Trouble::kDelay,     Trouble::kReorder, Trouble::kClog,
        Trouble::kBreak,  Trouble::kDuplicate, Trouble::kDrift,   Trouble::kWallJump};
    const Trouble trouble = kTroubles[Below(static_cast<int32_t>(kTroubles.size()))];
    Disturbance each = At(trouble, Member(true, true));
    const double lease_ms = options_.lease_ms;
    each.for_ms = Between(0.1, kLongestShare) * lease_ms;
    switch (trouble) {
      case Trouble::kSlowNode:
        each.amount = Between(2, 8);
        break;
      case Trouble::kGray:
        each.for_ms = Between(0.5, 4) * lease_ms;
        each.amount = Below(2) == 0 ? 0 : Between(5, 40);
        break;
      case Trouble::kCut:
      case Trouble::kFlap:
      case Trouble::kDelay:
      case Trouble::kReorder:
      case Trouble::kBreak:
        each.peer = Peer(each.target);
        each.amount = Between(1, 0.2 * lease_ms);
        break;
      case Trouble::kDuplicate:
        each.target = Member(/*servers=*/false, /*workers=*/true);
        each.amount = 1 + Below(6);
        break;
      case Trouble::kDrift:
        each.amount = Between(0.95, 1.05);
        break;
      case Trouble::kWallJump:
        if (Below(4) == 0) each.target = {TroubleTarget::Role::kCoordinator, 0};
        each.amount = Between(-20, 20) * lease_ms;
        break;
      default:
        break;
    }
    return each;
  }

  // Two cuts are kept, so of two damaged files nothing may be left.
  Disturbance OfDisk() {
    constexpr std::array<Trouble, 4> kTroubles = {Trouble::kDiskFull, Trouble::kSyncFails,
                                                  Trouble::kTruncate, Trouble::kFlipBit};
    const Trouble trouble = kTroubles[Below(damaged_ ? 2 : 4)];
    Disturbance each = At(trouble, Member(/*servers=*/true, /*workers=*/false));
    const bool damages = trouble == Trouble::kTruncate || trouble == Trouble::kFlipBit;
    damaged_ = damaged_ || damages;
    each.amount = damages ? Between(0, 1) : 1 + Below(4);
    return each;
  }

  const PlanOptions& options_;
  Random random_;
  bool damaged_ = false;
};

struct Word {
  Trouble trouble;
  const char* text;
};
constexpr std::array<Word, 20> kWords = {{{Trouble::kKill, "kill"},
                                          {Trouble::kHost, "lose the host of"},
                                          {Trouble::kFreeze, "freeze"},
                                          {Trouble::kCrashPoint, "crash"},
                                          {Trouble::kSlowNode, "slow down"},
                                          {Trouble::kCut, "cut"},
                                          {Trouble::kPartition, "partition"},
                                          {Trouble::kGray, "gray failure of"},
                                          {Trouble::kFlap, "flapping link"},
                                          {Trouble::kDelay, "delay"},
                                          {Trouble::kReorder, "reorder"},
                                          {Trouble::kClog, "clog"},
                                          {Trouble::kBreak, "break a stream"},
                                          {Trouble::kDuplicate, "duplicate pushes of"},
                                          {Trouble::kDiskFull, "disk full for snapshots of"},
                                          {Trouble::kSyncFails, "failed syncs of"},
                                          {Trouble::kTruncate, "truncate the newest snapshot of"},
                                          {Trouble::kFlipBit, "flip a bit of the newest one of"},
                                          {Trouble::kDrift, "drift of the clock of"},
                                          {Trouble::kWallJump, "wall clock jump of"}}};

bool HasPeer(Trouble trouble) {
  return trouble == Trouble::kCut || trouble == Trouble::kPartition || trouble == Trouble::kFlap ||
         trouble == Trouble::kDelay || trouble == Trouble::kReorder || trouble == Trouble::kBreak;
}

std::string_view NameOf(CrashPoint point) {
  for (const CrashPointName& each : kCrashPoints) {
    if (each.point == point) return each.name;
  }
  return "?";
}

}  // namespace

std::string TroubleTarget::ToString() const {
  if (role == Role::kCoordinator) return "coordinator";
  return absl::StrCat(role == Role::kServer ? "server:" : "worker:", index);
}

std::string Disturbance::ToString() const {
  const auto word = std::find_if(kWords.begin(), kWords.end(),
                                 [this](const Word& each) { return each.trouble == trouble; });
  std::string what = absl::StrCat(word->text, " ", target.ToString());
  if (trouble == Trouble::kCrashPoint) {
    const std::string name(NameOf(point));
    return absl::StrCat("from step ", step, " on: ", what, " at ", name);
  }
  if (HasPeer(trouble)) absl::StrAppend(&what, " -> ", peer.ToString());
  if (amount != 0) absl::StrAppend(&what, absl::StrFormat(" by %.4g", amount));
  if (for_ms != 0) absl::StrAppend(&what, absl::StrFormat(" for %.4g ms", for_ms));
  const std::string since =
      after_loss == 0 ? "" : absl::StrCat(" after group ", after_loss, " is dead");
  return absl::StrFormat("at %.5g ms%s: %s", at_ms, since, what);
}

std::string ToString(const Plan& plan) {
  return absl::StrJoin(plan, "\n", [](std::string* out, const Disturbance& each) {
    absl::StrAppend(out, each.ToString());
  });
}

bool MayEndAGroup(const Plan& plan, double lease_ms) {
  double silence_ms = 0;
  for (const Disturbance& each : plan) {
    switch (each.trouble) {
      case Trouble::kKill:
      case Trouble::kHost:
      case Trouble::kCrashPoint:
      case Trouble::kBreak:
      case Trouble::kGray:
        return true;
      case Trouble::kDelay:
      case Trouble::kReorder:
        silence_ms += each.amount;
        break;
      case Trouble::kDrift:
      case Trouble::kSlowNode:
        silence_ms += kSlackShare * lease_ms;
        break;
      case Trouble::kWallJump:
      case Trouble::kDuplicate:
      case Trouble::kDiskFull:
      case Trouble::kSyncFails:
      case Trouble::kTruncate:
      case Trouble::kFlipBit:
        break;
      default:
        silence_ms += each.for_ms;
        break;
    }
  }
  return silence_ms > kSilentShare * lease_ms;
}

Plan DrawPlan(const PlanOptions& options, uint64_t seed) { return Drawer(options, seed).Draw(); }

namespace {

class Shrinker {
 public:
  Shrinker(Plan plan, const std::function<bool(const Plan&)>& fails, int runs_max)
      : plan_(std::move(plan)), fails_(fails), runs_left_(runs_max) {}

  Plan Run() {
    while (LeaveOneOut()) {
    }
    for (size_t i = 0; i < plan_.size(); ++i) {
      Reduce(i, &Disturbance::at_ms);
      Reduce(i, &Disturbance::for_ms);
    }
    return plan_;
  }

 private:
  bool Try(const Plan& plan) {
    if (runs_left_ == 0) return false;
    --runs_left_;
    if (!fails_(plan)) return false;
    plan_ = plan;
    return true;
  }
  bool LeaveOneOut() {
    for (size_t i = 0; i < plan_.size(); ++i) {
      Plan less = plan_;
      less.erase(less.begin() + static_cast<std::ptrdiff_t>(i));
      if (Try(less)) return true;
    }
    return false;
  }
  // Bisects towards 0, on a grid.
  void Reduce(size_t index, double Disturbance::*field) {
    double fails = plan_[index].*field;
    double passes = 0;
    const auto with = [&](double value) {
      Plan less = plan_;
      less[index].*field = value;
      return Try(less);
    };
    if (fails == 0 || with(0)) return;
    while (fails - passes > kGrid) {
      const double middle = std::round((fails + passes) / 2 / kGrid) * kGrid;
      if (middle >= fails || middle <= passes) return;
      (with(middle) ? fails : passes) = middle;
    }
  }

  Plan plan_;
  const std::function<bool(const Plan&)>& fails_;
  int runs_left_;
};

}  // namespace

Plan Shrink(const Plan& plan, const std::function<bool(const Plan&)>& fails, int runs_max) {
  return Shrinker(plan, fails, runs_max).Run();
}

}  // namespace lockstep
