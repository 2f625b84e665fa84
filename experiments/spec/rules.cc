#include "experiments/spec/rules.h"

#include <algorithm>
#include <cstring>

#include "base/limits.h"
#include "experiments/spec/size.h"

namespace lockstep {
namespace {

constexpr const char kReal[] = "today all workers run on this host and stay up";

// In the order of experiment.proto.
constexpr FieldRule kFieldRules[] = {
    {.path = "name", .kind = RuleKind::kName},

    {.path = "model", .kind = RuleKind::kBlock},
    {.path = "model.mlp", .kind = RuleKind::kBlock},
    {.path = "model.mlp.layers",
     .kind = RuleKind::kRange,
     .min = 1,
     .max = 65'536,
     .meaning = "width of a layer"},

    {.path = "data", .kind = RuleKind::kBlock},
    {.path = "data.digits", .kind = RuleKind::kBlock},

    {.path = "train", .kind = RuleKind::kBlock},
    {.path = "train.global_batch",
     .kind = RuleKind::kRange,
     .min = 1,
     .max = 65'536,
     .meaning = "samples per step over all workers",
     .sweep = true},
    {.path = "train.steps",
     .kind = RuleKind::kRange,
     .min = 1,
     .max = 10'000'000,
     .meaning = "training steps of one run"},
    {.path = "train.optimizer", .kind = RuleKind::kBlock},
    {.path = "train.optimizer.sgd", .kind = RuleKind::kBlock},
    {.path = "train.optimizer.sgd.learning_rate",
     .kind = RuleKind::kRange,
     .min = 1e-9,
     .max = 1'000,
     .meaning = "step size of the update"},
    {.path = "train.optimizer.sgd.momentum",
     .kind = RuleKind::kRange,
     .min = 0,
     .max = 0.9999,
     .meaning = "share of the last update that is kept; 1 or more never dies out"},
    // Seeds stand in run.json, where numbers are doubles: exact up to 2^53.
    {.path = "train.seeds",
     .kind = RuleKind::kRange,
     .min = 0,
     .max = 9'007'199'254'740'992,
     .meaning = "seed of a run"},

    {.path = "reduce_op", .kind = RuleKind::kChoice, .built = "MEAN SUM"},
    {.path = "reduction_order", .kind = RuleKind::kChoice, .built = "ENGINE"},
    {.path = "wire_dtype", .kind = RuleKind::kChoice, .built = "F32", .sweep = true},
    {.path = "bucket_cap_mb",
     .kind = RuleKind::kRange,
     .min = 0.001,
     .max = 1'024,
     .meaning = "megabytes of gradients synchronised together",
     .sweep = true},
    {.path = "find_unused_parameters", .kind = RuleKind::kChoice, .built = "false"},
    {.path = "gradient_as_bucket_view", .kind = RuleKind::kChoice, .built = "true"},
    {.path = "overlap", .kind = RuleKind::kChoice, .built = "false"},

    {.path = "network", .kind = RuleKind::kBlock},
    {.path = "network.time_base", .kind = RuleKind::kChoice, .built = "AUTO WALL"},
    {.path = "network.rate",
     .kind = RuleKind::kNotBuilt,
     .built = "today all processes share this host's loopback interface, unshaped"},
    {.path = "workers",
     .kind = RuleKind::kRange,
     .min = 1,
     .max = kWorkersMax,
     .meaning = "worker processes",
     .sweep = true},

    {.path = "variant", .kind = RuleKind::kBlock},
    {.path = "variant.name", .kind = RuleKind::kName},
    {.path = "variant.none", .kind = RuleKind::kBlock},
    {.path = "variant.ps", .kind = RuleKind::kBlock},
    {.path = "variant.ps.mode", .kind = RuleKind::kChoice, .built = "SYNC"},
    {.path = "variant.ps.servers",
     .kind = RuleKind::kRange,
     .min = 1,
     .max = kServersMax,
     .meaning = "server processes",
     .sweep = true},
    {.path = "variant.ps.policy", .kind = RuleKind::kChoice, .built = "NONE"},
    {.path = "variant.ps.optimizer_on", .kind = RuleKind::kChoice, .built = "SERVER"},
    {.path = "variant.all_reduce", .kind = RuleKind::kBlock},
    {.path = "variant.all_reduce.algorithm", .kind = RuleKind::kChoice, .built = "RING"},
    {.path = "variant.all_reduce.engine", .kind = RuleKind::kChoice, .built = "HOST"},
    {.path = "variant.all_reduce.link", .kind = RuleKind::kChoice, .built = "TCP"},
    {.path = "variant.all_reduce.channels",
     .kind = RuleKind::kRange,
     .min = 1,
     .max = 16,
     .meaning = "rings that share the work"},

    {.path = "fault", .kind = RuleKind::kNotBuilt, .built = kReal},
    {.path = "blocks",
     .kind = RuleKind::kRange,
     .min = 1,
     .max = 1'000,
     .meaning = "repetitions of every variant"},
    {.path = "expect",
     .kind = RuleKind::kNotBuilt,
     .built = "today the verdict's own rules decide"},
    {.path = "probe", .kind = RuleKind::kBlock},
    {.path = "probe.every",
     .kind = RuleKind::kRange,
     .min = 1,
     .max = 10'000'000,
     .meaning = "steps between two comparisons of the replicas"},
    {.path = "probe.keep_snapshots", .kind = RuleKind::kChoice, .built = "false true"},
    {.path = "limits", .kind = RuleKind::kBlock},
};

bool HasPs(const Experiment& experiment) {
  return std::any_of(experiment.variant().begin(), experiment.variant().end(),
                     [](const Variant& variant) { return variant.has_ps(); });
}
bool HasAllReduce(const Experiment& experiment) {
  return std::any_of(experiment.variant().begin(), experiment.variant().end(),
                     [](const Variant& variant) { return variant.has_all_reduce(); });
}
bool NoPs(const Experiment& experiment) { return !HasPs(experiment); }
bool NothingSynchronises(const Experiment& experiment) {
  return !HasPs(experiment) && !HasAllReduce(experiment);
}
bool ProbesOnlyTheLastStep(const Experiment& experiment) {
  return experiment.probe().every() > experiment.train().steps();
}
bool OneWorker(const Experiment& experiment) {
  return experiment.workers_size() == 1 && experiment.workers(0) == 1;
}
bool SnapshotsTooLarge(const Experiment& experiment) {
  const int64_t limit = experiment.limits().has_snapshot_bytes_max()
                            ? experiment.limits().snapshot_bytes_max()
                            : Limits{}.snapshot_bytes_max;
  return EstimateSize(experiment).gradient_bytes > limit;
}

constexpr const char kNoSync[] = "no variant synchronises";
constexpr const char kNoServer[] = "no variant has a parameter server";

}  // namespace

const UnusedRule kUnusedRules[kUnusedRuleCount] = {
    {"reduce_op", &NothingSynchronises, kNoSync},
    {"bucket_cap_mb", &NothingSynchronises, kNoSync},
    {"limits.sync_timeout_ms", &NothingSynchronises, kNoSync},
    {"limits.chunk_bytes", &NothingSynchronises, kNoSync},
    {"limits.window_chunks", &NoPs, kNoServer},
    {"limits.staged_bytes_max", &NoPs, kNoServer},
    {"probe.every", &ProbesOnlyTheLastStep,
     "it is larger than train.steps, so that only the last step is compared, which always is"},
    {"probe.keep_snapshots", &SnapshotsTooLarge,
     "the parameters are larger than limits.snapshot_bytes_max, so that none is written"},
    {"variant.all_reduce.channels", &OneWorker, "one worker exchanges nothing"},
};

std::optional<FieldRule> FindRule(const std::string& pattern) {
  for (const FieldRule& rule : kFieldRules) {
    if (pattern == rule.path) return rule;
  }
  constexpr char kLimits[] = "limits.";
  if (pattern.compare(0, std::strlen(kLimits), kLimits) != 0) return std::nullopt;
  for (const LimitRow& row : kLimitRows) {
    if (pattern.substr(std::strlen(kLimits)) != row.name) continue;
    return FieldRule{.path = row.name,
                     .kind = RuleKind::kRange,
                     .min = static_cast<double>(row.min),
                     .max = static_cast<double>(row.max),
                     .meaning = row.meaning};
  }
  return std::nullopt;
}

}  // namespace lockstep
