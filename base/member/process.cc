#include "base/member/process.h"

#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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

SgdOptions SgdFrom(const Experiment& experiment, const Variant& variant, int workers) {
  const Sgd& sgd = experiment.train().optimizer().sgd();
  const bool async = variant.has_ps() && variant.ps().mode() == Ps::ASYNC;
  const bool one_by_one = async || variant.has_none();
  double rate = sgd.learning_rate();
  if (async && variant.ps().rate() == Ps::OVER_WORKERS) rate /= workers;
  return {.learning_rate = static_cast<float>(rate),
          .momentum = static_cast<float>(sgd.momentum()),
          .divisor =
              experiment.reduce_op() == MEAN && !one_by_one ? static_cast<float>(workers) : 1.0F};
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
