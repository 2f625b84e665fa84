#include "experiments/analyse/bytes.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "allreduce/schedule/load.h"
#include "base/numeric/exact.h"
#include "base/status.h"
#include "experiments/analyse/balance.h"
#include "experiments/analyse/traffic_count.h"
#include "experiments/spec/size.h"
#include "worker/sync/spec_words.h"

namespace lockstep {
namespace {

// The first of equals wins, so the answer does not depend on anything but the records.
void NameBusiest(const std::vector<LinkCount>& links, VariantResult* result) {
  for (const LinkCount& link : links) {
    const auto offer = [&](const char* direction, double bytes) {
      if (bytes <= 0 || bytes <= result->busiest().bytes_per_step()) return;
      result->mutable_busiest()->set_node(link.name);
      result->mutable_busiest()->set_direction(direction);
      result->mutable_busiest()->set_bytes_per_step(bytes);
    };
    offer("in", link.in);
    offer("out", link.out);
  }
}

// What all processes sent outside their steps.
double SetUpBytes(const RunRecord& run) {
  double bytes = 0;
  for (const auto* members : {&run.workers, &run.servers}) {
    for (const MemberRecord& member : *members) {
      bytes += static_cast<double>(member.set_up.traffic().sent_bytes());
      for (const Rebuilt& rebuilt : member.rebuilds) {
        bytes += static_cast<double>(rebuilt.traffic().sent_bytes());
      }
      if (member.ended) bytes += static_cast<double>(member.ended->traffic().sent_bytes());
    }
  }
  return bytes;
}

// What a head sends to its first copy; in f32, whatever the wire's type.
void AggregateReplication(const std::vector<const RunRecord*>& runs, double elements,
                          VariantResult* result) {
  const Ps& ps = runs[0]->config.variant().ps();
  if (ps.policy() != Ps::CHAIN) return;
  double sent = 0;
  double updates = 0;
  for (const RunRecord* run : runs) {
    for (const MemberRecord& server : run->servers) {
      for (const Applied& applied : server.applied) {
        if (applied.step() <= WarmupSteps(run->steps())) continue;
        sent += static_cast<double>(applied.replication().sent_bytes());
        ++updates;
      }
    }
  }
  if (updates == 0) return;
  BytesResult* bytes = result->mutable_bytes();
  const double pushes = ps.aggregated() ? 1 : static_cast<double>(result->workers());
  bytes->set_replication_per_step(sent / updates);
  bytes->set_replication_formula(pushes * elements * sizeof(float) / result->servers());
  bytes->set_replication_formula_text(ps.aggregated() ? "S / s" : "n S / s");
}

// 0 when no worker said how large the gradients are.
double GradientBytes(const std::vector<const RunRecord*>& runs) {
  for (const RunRecord* run : runs) {
    for (const MemberRecord& worker : run->workers) {
      if (worker.started.gradient_bytes() > 0) {
        return static_cast<double>(worker.started.gradient_bytes());
      }
    }
  }
  return 0;
}

int ElementBytes(const Experiment& experiment) {
  return static_cast<int>(
      WireBytes(experiment.wire_dtype_size() > 0 ? experiment.wire_dtype(0) : F32));
}

// Every worker carries the same, and no link more.
ByteFormula Even(double bytes, const std::string& text) {
  ByteFormula formula;
  formula.worker = bytes;
  formula.worker_text = text;
  formula.busiest = bytes;
  formula.busiest_text = text;
  return formula;
}

ByteFormula WithServers(const ByteFormulaInput& input, double gradient_bytes) {
  ByteFormula formula = Even(gradient_bytes, "S");
  const double servers = input.servers;
  formula.server = input.workers * gradient_bytes / servers;
  formula.server_text = "n S / s";
  const std::vector<double> shares =
      input.shares.empty() ? std::vector<double>(static_cast<size_t>(input.servers), 1 / servers)
                           : input.shares;
  const LinkLoad busiest = BusiestLinkOf(input.hosts, input.workers, shares, gradient_bytes);
  formula.busiest = busiest.bytes;
  formula.busiest_text = busiest.text;
  return formula;
}

// "2(n-1)/n S" where the share is one of the theory's, else the number.
std::string ShareText(double share, double n) {
  const auto is = [share](double value) { return std::abs(share - value) < 1e-9; };
  if (is(2 * (n - 1) / n)) return "2(n-1)/n S";
  if (is(n - 1)) return "(n-1) S";
  if (is(1)) return "S";
  return absl::StrFormat("%.4g S", share);
}

absl::StatusOr<ByteFormula> OfSchedule(const ByteFormulaInput& input, double gradient_bytes) {
  ASSIGN_OR_RETURN(const ScheduleSpec spec, ScheduleSpecOf(input));
  ASSIGN_OR_RETURN(const std::vector<RankLoad> loads, LoadsOf(spec));
  double sent = 0;
  double busiest = 0;
  for (size_t rank = 0; rank < loads.size(); ++rank) {
    if (static_cast<int>(rank) < input.workers) sent += loads[rank].sent / input.workers;
    busiest = std::max({busiest, loads[rank].sent, loads[rank].received});
  }
  const double n = input.workers;
  const bool naive = spec.algorithm == Algorithm::kNaive;
  ByteFormula formula = Even(sent * gradient_bytes, naive ? "(n-1) S" : ShareText(sent, n));
  if (spec.algorithm == Algorithm::kTree) {
    formula.busiest_text = absl::StrCat(std::round(busiest), " S, one to each neighbour");
  } else if (busiest - sent > 1e-9) {
    formula.busiest_text = ShareText(busiest, n);
  }
  formula.busiest = busiest * gradient_bytes;
  if (spec.world_size > input.workers) {
    formula.server = loads.back().received * gradient_bytes;
    formula.server_text = ShareText(loads.back().received, n);
  }
  return formula;
}

// All pushes go to the servers, and all pulls come from there.
bool OnlyServersSum(const ByteFormulaInput& input) {
  return absl::StartsWith(input.mode, "ps_") ||
         (input.algorithm == NameOf(Algorithm::kPsExchange) &&
          input.placement == Placement::kSpare);
}

std::optional<double> Ratio(bool measured, double counted, double formula) {
  if (!measured || formula <= 0) return std::nullopt;
  return counted / formula;
}

}  // namespace

double EncodedBytes(const ByteFormulaInput& input) {
  if (!input.exact || input.mode != "all_reduce") return input.gradient_bytes;
  constexpr double kIntegerBytes = 8;
  constexpr double kExponentBytes = 4;
  const double elements = input.gradient_bytes / input.element_bytes;
  return elements * (kIntegerBytes + kExponentBytes / static_cast<double>(kExactBlockElements));
}

absl::StatusOr<ScheduleSpec> ScheduleSpecOf(const ByteFormulaInput& input) {
  const std::optional<Algorithm> algorithm = AlgorithmNamed(input.algorithm);
  if (!algorithm) {
    return absl::InvalidArgumentError(
        absl::StrCat("byte formula: no algorithm is named '", input.algorithm, "'"));
  }
  const bool apart = input.placement != Placement::kColocated;
  ScheduleSpec spec;
  spec.algorithm = *algorithm;
  spec.servers = input.servers;
  spec.world_size = input.workers + (apart ? input.servers : 0);
  spec.placement = input.placement;
  spec.group_size = input.group_size;
  return spec;
}

absl::StatusOr<ByteFormula> FormulaFor(const ByteFormulaInput& input) {
  if (input.mode == "none") return Even(0, "0");
  if (input.algorithm == NameOf(Algorithm::kAuto)) return Even(0, "by each bucket's choice");
  const bool servers_missing = OnlyServersSum(input) && input.servers < 1;
  if (input.workers < 1 || input.element_bytes < 1 || servers_missing ||
      (!OnlyServersSum(input) && input.mode != "all_reduce")) {
    return absl::InvalidArgumentError(
        absl::StrCat("byte formula: none for mode '", input.mode, "', algorithm '", input.algorithm,
                     "', ", input.workers, " workers, ", input.servers, " servers, ",
                     input.element_bytes, " bytes an element"));
  }
  const double bytes = EncodedBytes(input);
  ByteFormula formula;
  if (OnlyServersSum(input)) {
    formula = WithServers(input, bytes);
  } else {
    ASSIGN_OR_RETURN(formula, OfSchedule(input, bytes));
  }
  if (bytes != input.gradient_bytes) {
    for (std::string* text : {&formula.worker_text, &formula.server_text, &formula.busiest_text}) {
      if (!text->empty()) absl::StrAppend(text, ", S at 8 B an element");
    }
  }
  return formula;
}

ByteRatios CountedOverFormula(const BytesResult& bytes) {
  return {.worker_sent = Ratio(true, bytes.tx_per_worker_step(), bytes.formula()),
          .worker_received = Ratio(true, bytes.rx_per_worker_step(), bytes.formula()),
          .server_in = Ratio(bytes.has_server_in_per_step(), bytes.server_in_per_step(),
                             bytes.server_formula()),
          .server_out = Ratio(bytes.has_server_out_per_step(), bytes.server_out_per_step(),
                              bytes.server_formula())};
}

ByteFormulaInput FormulaInputOf(const RunConfig& config, double gradient_bytes) {
  const AllReduceSync& all_reduce = config.variant().all_reduce();
  ByteFormulaInput input{.mode = ModeOf(config.variant()),
                         .algorithm = AlgorithmOf(config.variant()),
                         .workers = config.world_size(),
                         .servers = config.servers(),
                         .gradient_bytes = gradient_bytes,
                         .element_bytes = ElementBytes(config.experiment()),
                         .exact = config.experiment().reduction_order() == EXACT,
                         .placement = PlacementFrom(all_reduce.placement()),
                         .group_size = all_reduce.group_size()};
  if (input.placement == Placement::kColocated) input.servers = SummingRanksOf(all_reduce);
  if (!config.variant().has_ps()) return input;
  input.hosts = ServerHostsOf(config.variant().ps());
  const absl::StatusOr<BalanceResult> balance = BalanceOf(BalanceInputOf(config));
  if (balance.ok()) input.shares = SharesOf(*balance);
  return input;
}

ByteFormulaInput FormulaInputOf(const std::vector<const RunRecord*>& runs) {
  return FormulaInputOf(runs[0]->config, GradientBytes(runs));
}

absl::Status AggregateBytes(const std::vector<const RunRecord*>& runs, VariantResult* result) {
  // Another library does not tell what it sends, and what is ours beside it is no gradient.
  if (runs[0]->config.variant().all_reduce().engine() != AllReduceSync::HOST) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const ByteFormula formula, FormulaFor(FormulaInputOf(runs)));
  const RoleCount workers = CountWorkers(runs);
  const RoleCount servers = CountServers(runs);
  if (workers.all.steps == 0) return absl::OkStatus();  // stopped before the first measured step
  BytesResult* bytes = result->mutable_bytes();
  bytes->set_tx_per_worker_step(workers.all.out / workers.all.steps);
  bytes->set_rx_per_worker_step(workers.all.in / workers.all.steps);
  bytes->set_formula(formula.worker);
  bytes->set_formula_text(formula.worker_text);
  if (formula.server) {
    bytes->set_server_formula(*formula.server);
    bytes->set_server_formula_text(formula.server_text);
  }
  if (servers.all.steps > 0) {
    bytes->set_server_in_per_step(servers.all.in / servers.all.steps);
    bytes->set_server_out_per_step(servers.all.out / servers.all.steps);
  }
  double set_up = 0;
  for (const RunRecord* run : runs) set_up += SetUpBytes(*run);
  bytes->set_set_up(set_up / static_cast<double>(runs.size()));
  const ByteFormulaInput input = FormulaInputOf(runs);
  AggregateReplication(runs, input.gradient_bytes / input.element_bytes, result);
  NameBusiest(CountLinks(input.hosts, workers, servers), result);
  if (result->has_busiest()) {
    result->mutable_busiest()->set_formula(formula.busiest);
    result->mutable_busiest()->set_formula_text(formula.busiest_text);
  }
  return absl::OkStatus();
}

}  // namespace lockstep
