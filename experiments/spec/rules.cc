#include "experiments/spec/rules.h"

#include <algorithm>
#include <cstring>

#include "base/limits.h"
#include "base/member/process.h"
#include "experiments/spec/size.h"

namespace lockstep {
namespace {

constexpr FieldRule Block(const char* path) { return {.path = path, .kind = RuleKind::kBlock}; }
constexpr FieldRule Name(const char* path) { return {.path = path, .kind = RuleKind::kName}; }
constexpr FieldRule Text(const char* path) { return {.path = path, .kind = RuleKind::kText}; }
constexpr FieldRule NotBuilt(const char* path, const char* instead) {
  return {.path = path, .kind = RuleKind::kNotBuilt, .built = instead};
}
constexpr FieldRule Choice(const char* path, const char* built, Sweep sweep = Sweep::kNo) {
  return {.path = path, .kind = RuleKind::kChoice, .built = built, .sweep = sweep};
}
struct Bounds {
  double min;
  double max;
};
constexpr FieldRule Range(const char* path, Bounds bounds, const char* meaning,
                          Sweep sweep = Sweep::kNo) {
  return {.path = path,
          .kind = RuleKind::kRange,
          .min = bounds.min,
          .max = bounds.max,
          .meaning = meaning,
          .sweep = sweep};
}

// In the order of experiment.proto.
constexpr FieldRule kFieldRules[] = {
    Name("name"),

    Block("model"),
    Block("model.mlp"),
    Range("model.mlp.layers", {1, 65'536}, "width of a layer"),

    Block("data"),
    Block("data.digits"),

    Block("train"),
    Range("train.global_batch", {1, 65'536}, "samples per step over all workers", Sweep::kNotBuilt),
    Range("train.steps", {1, 10'000'000}, "training steps of one run"),
    Block("train.optimizer"),
    Block("train.optimizer.sgd"),
    Range("train.optimizer.sgd.learning_rate", {1e-9, 1'000}, "size of an update"),
    Range("train.optimizer.sgd.momentum", {0, 0.9999},
          "share of the last update that is kept; 1 would never die out"),
    Block("train.optimizer.adam"),
    Block("train.optimizer.adamw"),
    Range("train.optimizer.adam.learning_rate", {1e-9, 1'000}, "size of an update"),
    Range("train.optimizer.adam.beta1", {0, 0.999999}, "share of the mean that is kept"),
    Range("train.optimizer.adam.beta2", {0, 0.9999999}, "share of the mean square that is kept"),
    Range("train.optimizer.adam.epsilon", {1e-30, 1}, "added to the root of the mean square"),
    Range("train.optimizer.adam.weight_decay", {0, 1}, "pull towards zero"),
    Range("train.optimizer.adamw.learning_rate", {1e-9, 1'000}, "size of an update"),
    Range("train.optimizer.adamw.beta1", {0, 0.999999}, "share of the mean that is kept"),
    Range("train.optimizer.adamw.beta2", {0, 0.9999999}, "share of the mean square that is kept"),
    Range("train.optimizer.adamw.epsilon", {1e-30, 1}, "added to the root of the mean square"),
    Range("train.optimizer.adamw.weight_decay", {0, 1}, "pull towards zero"),
    // Seeds stand in run.json, where numbers are doubles: exact up to 2^53.
    Range("train.seeds", {0, 9'007'199'254'740'992}, "seed of a run"),
    Range("train.target_loss", {1e-9, 1'000}, "loss to reach"),

    Choice("reduce_op", "MEAN SUM"),
    Choice("reduction_order", "ENGINE EXACT"),
    Choice("wire_dtype", "F32 F16 BF16 F64", Sweep::kNotBuilt),
    Range("bucket_cap_mb", {0.001, 1'024},
          "MiB of gradients synchronised together, as in PyTorch DDP", Sweep::kNotBuilt),
    Choice("find_unused_parameters", "false"),
    Choice("gradient_as_bucket_view", "true"),

    Block("network"),
    Choice("network.time_base", "AUTO WALL"),
    NotBuilt("network.rate", "today all processes share this host's loopback, unshaped"),
    Range("workers", {1, kWorkersMax}, "worker processes", Sweep::kBuilt),

    Block("variant"),
    Name("variant.name"),
    Block("variant.none"),
    Block("variant.ps"),
    Choice("variant.ps.mode", "SYNC ASYNC BOUNDED K_OF_N"),
    Range("variant.ps.servers", {1, kServersMax}, "server processes", Sweep::kNotBuilt),
    Choice("variant.ps.policy", "NONE SNAPSHOT CHAIN"),
    Choice("variant.ps.optimizer_on", "SERVER WORKER"),
    Range("variant.ps.staleness", {0, 1'000'000}, "steps that the fastest worker may be ahead"),
    Range("variant.ps.k", {1, kWorkersMax}, "pushes that make an update"),
    Choice("variant.ps.rate", "OVER_WORKERS FULL"),
    Choice("variant.ps.late", "DROP APPLY"),
    Choice("variant.ps.scale_by_staleness", "false true"),
    Choice("variant.ps.placement", "SPLIT IN_TURN BY_SIZE"),
    Range("variant.ps.replicas", {1, kReplicasMax}, "copies of a shard beside the primary"),
    Choice("variant.ps.aggregated", "false true"),
    Range("variant.ps.snapshot_every", {1, 1'000'000}, "steps between two snapshots"),
    Choice("variant.ps.on_worker_loss", "STOP REPLACE SHRINK"),
    Choice("variant.ps.hosts", "OWN SHARED COLOCATED"),
    Range("variant.ps.servers_per_host", {1, kServersMax}, "servers that share a host"),
    Block("variant.all_reduce"),
    Choice("variant.all_reduce.algorithm",
           "AUTO NAIVE STAR RING TREE DOUBLE_TREE HALVING_DOUBLING RECURSIVE_DOUBLING DIRECT "
           "HIERARCHICAL PS_EXCHANGE"),
    Choice("variant.all_reduce.engine", "HOST CUDA MPI GLOO NCCL"),
    Choice("variant.all_reduce.link", "TCP SHM"),
    Range("variant.all_reduce.channels", {1, 16}, "copies of the schedule that share the work"),
    Choice("variant.all_reduce.on_loss", "STOP SHRINK REPLACE"),
    Range("variant.all_reduce.servers", {1, kServersMax}, "ranks that sum", Sweep::kNotBuilt),
    Range("variant.all_reduce.group_size", {1, kWorkersMax}, "ranks of a group"),
    Choice("variant.all_reduce.placement", "SPARE COLOCATED SPLIT"),
    Block("variant.all_reduce.nccl"),
    Choice("variant.all_reduce.nccl.algo", "ANY_ALGO RING TREE NVLS NVLS_TREE"),
    Choice("variant.all_reduce.nccl.proto", "ANY_PROTO LL LL128 SIMPLE"),
    Choice("variant.all_reduce.nccl.share_gpu", "false true"),
    Block("variant.all_reduce.cuda"),
    Choice("variant.all_reduce.cuda.share_gpu", "false true"),

    Block("fault"),
    Block("fault.at"),
    Range("fault.at.step", {1, 10'000'000}, "training step"),
    NotBuilt("fault.at.time", "today a fault happens at a step"),
    Text("fault.target"),
    Text("fault.point"),
    Choice(
        "fault.kind",
        "KILL FREEZE RESTART CRASH_POINT DISK_FULL DROP DUPLICATE CORRUPT DELAY NAN_GRADIENT LEAVE "
        "JOIN"),
    Text("fault.for"),
    Block("fault.message"),
    Range("fault.message.to", {0, kWorkersMax - 1}, "worker"),
    Range("fault.message.nth", {0, 1'000'000'000}, "message of the step, from 0"),
    Range("fault.after_bucket", {0, 1'000'000}, "bucket"),
    Range("blocks", {1, 1'000}, "repetitions of every variant"),
    NotBuilt("expect", "today the verdict's own rules decide"),
    Block("probe"),
    Range("probe.every", {1, 10'000'000}, "steps between two comparisons of the replicas"),
    Choice("probe.keep_snapshots", "false true"),
    Block("limits"),
    Choice("overlap", "false true"),
    Choice("broadcast_start", "false true"),
    Block("trace"),
    Range("trace.steps", {0, 1'000}, "steps that trace.json shows"),
    Choice("device", "CPU GPU"),
    Choice("math", "STRICT TF32"),
    Choice("share_gpu", "false true"),
    Choice("mixed_devices", "false true"),
};

bool IsPsExchange(const Variant& variant) {
  return variant.all_reduce().algorithm() == AllReduceSync::PS_EXCHANGE;
}
bool None(const Experiment& experiment, bool (*of_this_kind)(const Variant&)) {
  return std::none_of(experiment.variant().begin(), experiment.variant().end(), of_this_kind);
}
bool NoPs(const Experiment& experiment) {
  return None(experiment, [](const Variant& variant) { return variant.has_ps(); });
}
bool NothingSynchronises(const Experiment& experiment) {
  return None(experiment,
              [](const Variant& variant) { return variant.has_ps() || variant.has_all_reduce(); });
}
bool NothingSums(const Experiment& experiment) {
  return None(experiment, [](const Variant& variant) {
    return (variant.has_ps() && !AppliesAlone(variant.ps())) || variant.has_all_reduce();
  });
}
bool ProbesOnlyTheLastStep(const Experiment& experiment) {
  return experiment.probe().every() > experiment.train().steps();
}
bool OneWorker(const Experiment& experiment) {
  return std::all_of(experiment.workers().begin(), experiment.workers().end(),
                     [](int workers) { return workers == 1; });
}
bool OneRank(const Experiment& experiment) {
  return OneWorker(experiment) && None(experiment, &IsPsExchange);
}
bool NoGpu(const Experiment& experiment) {
  return experiment.device() == CPU && !experiment.mixed_devices();
}
bool SnapshotsTooLarge(const Experiment& experiment) {
  const int64_t limit = experiment.limits().has_snapshot_bytes_max()
                            ? experiment.limits().snapshot_bytes_max()
                            : Limits{}.snapshot_bytes_max;
  return EstimateSize(experiment).parameters * int64_t{sizeof(float)} > limit;
}

constexpr const char kNoSync[] = "no variant synchronises";
constexpr const char kNoSum[] = "no variant sums over the workers";
constexpr const char kNoServer[] = "no variant has a parameter server";

constexpr UnusedRule kUnusedRules[] = {
    {"reduce_op", &NothingSums, kNoSum},
    {"reduction_order", &NothingSynchronises, kNoSync},
    {"wire_dtype", &NothingSynchronises, kNoSync},
    {"bucket_cap_mb", &NothingSynchronises, kNoSync},
    {"overlap", &NothingSynchronises, kNoSync},
    {"broadcast_start", &OneWorker, "one worker has nobody to differ from"},
    {"limits.sync_timeout_ms", &NothingSynchronises, kNoSync},
    {"limits.chunk_bytes", &NothingSynchronises, kNoSync},
    {"limits.device_timeout_ms", &NoGpu, "no worker computes on a GPU"},
    {"limits.window_chunks", &NoPs, kNoServer},
    {"limits.staged_bytes_max", &NoPs, kNoServer},
    {"probe.every", &ProbesOnlyTheLastStep,
     "it is larger than train.steps, so that only the last step is compared, which always is"},
    {"probe.keep_snapshots", &SnapshotsTooLarge,
     "the parameters are larger than limits.snapshot_bytes_max, so that none is written"},
    {"variant.all_reduce.channels", &OneRank, "one worker exchanges nothing"},
    {"variant.ps.rate", &OneWorker, "with one worker r / n is r"},
};

}  // namespace

std::span<const UnusedRule> UnusedRules() { return kUnusedRules; }

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
