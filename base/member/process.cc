#include "base/member/process.h"

#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/exit_code.h"
#include "base/numeric/isa.h"

namespace lockstep {

TrafficCount CountOf(const Traffic& traffic) {
  TrafficCount count;
  count.set_sent_bytes(traffic.sent_bytes);
  count.set_received_bytes(traffic.received_bytes);
  count.set_sent_messages(traffic.sent_messages);
  count.set_received_messages(traffic.received_messages);
  return count;
}

namespace {

constexpr double kAdamWDecay = 0.01;  // PyTorch's default

OptimizerOptions RuleOf(const Optimizer& optimizer) {
  if (!optimizer.has_adam() && !optimizer.has_adamw()) {
    const Sgd& sgd = optimizer.sgd();
    return {.learning_rate = static_cast<float>(sgd.learning_rate()),
            .momentum = static_cast<float>(sgd.momentum())};
  }
  const Adam& adam = optimizer.has_adamw() ? optimizer.adamw() : optimizer.adam();
  return {.learning_rate = static_cast<float>(adam.learning_rate()),
          .kind = optimizer.has_adamw() ? OptimizerKind::kAdamW : OptimizerKind::kAdam,
          .beta1 = static_cast<float>(adam.beta1()),
          .beta2 = static_cast<float>(adam.beta2()),
          .epsilon = static_cast<float>(adam.epsilon()),
          .weight_decay = static_cast<float>(optimizer.has_adamw() && !adam.has_weight_decay()
                                                 ? kAdamWDecay
                                                 : adam.weight_decay())};
}

}  // namespace

bool AppliesAlone(const Ps& ps) { return ps.mode() == Ps::ASYNC || ps.mode() == Ps::BOUNDED; }

OptimizerOptions OptimizerFrom(const Experiment& experiment, const Variant& variant, int workers) {
  const bool alone = variant.has_ps() && AppliesAlone(variant.ps());
  const bool one_by_one = alone || variant.has_none();
  OptimizerOptions options = RuleOf(experiment.train().optimizer());
  if (alone && variant.ps().rate() == Ps::OVER_WORKERS) {
    options.learning_rate /= static_cast<float>(workers);
  }
  if (experiment.reduce_op() == MEAN && !one_by_one) options.divisor = static_cast<float>(workers);
  return options;
}

Dtype DtypeFrom(DtypeSpec spec) {
  switch (spec) {
    case F32:
      return Dtype::kF32;
    case F64:
      return Dtype::kF64;
    case F16:
      return Dtype::kF16;
    case BF16:
      return Dtype::kBf16;
    default:
      break;
  }
  CHECK(false) << "gradients don't travel as " << DtypeSpec_Name(spec);
  return Dtype::kF32;
}

Started DescribeProcess(const std::string& role, int index, const RunConfig& run) {
  Started started;
  started.set_role(role);
  started.set_index(index);
  started.set_pid(getpid());
  started.set_host(HostName());
  started.set_build(BuildId());
  started.set_variant(run.variant().name());
  started.set_block(run.block());
  started.set_seed(run.seed());
  started.set_world_size(run.world_size());
  started.set_servers(run.servers());
  started.set_threads(1);
  started.set_isa(NameOf(BestIsa()));
  return started;
}

int Leave(const Leaving& leaving, const Abort& abort, const SignalWatch& signals) {
  constexpr int kSignalBase = 128;
  if (leaving.status.ok()) return kExitOk;
  const std::string when =
      leaving.step < 0 ? "before training" : absl::StrCat("after step ", leaving.step);
  absl::FPrintF(stderr, "%s, %s: %s\n", leaving.name, when, leaving.status.ToString());
  const bool own = abort.status().ok();
  if (leaving.member != nullptr && own) leaving.member->Fail(leaving.status, leaving.step + 1);
  return signals.received() != 0 ? kSignalBase + signals.received() : ExitCodeFor(leaving.status);
}

}  // namespace lockstep
