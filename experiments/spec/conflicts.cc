#include "experiments/spec/conflicts.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/limits.h"
#include "experiments/spec/checker.h"
#include "experiments/spec/rules.h"
#include "experiments/spec/size.h"

namespace lockstep {
namespace {

constexpr int64_t kBatchMax = 65'536;
constexpr int64_t kRunsMax = 10'000;  // each keeps its records: weeks and gigabytes
// 1 GiB of f32, with as much again for gradients and optimizer in every process.
constexpr int64_t kParametersMax = int64_t{1} << 28;

void CheckLayers(const Checker& check) {
  constexpr char kPath[] = "model.mlp.layers";
  if (!check.experiment.model().has_mlp() || check.places.Unreadable(kPath)) return;
  const auto& layers = check.experiment.model().mlp().layers();
  if (layers.size() < 2) {
    check.Error(
        kPath,
        absl::StrCat("has ", layers.size(), " width", layers.size() == 1 ? "" : "s",
                     "; a model needs at least two, from input to classes, as [64, 256, 10]"));
    return;
  }
  const int64_t parameters = ParameterCount(check.experiment.model().mlp());
  if (parameters > kParametersMax) {
    check.Error(kPath, absl::StrCat("these widths make ", parameters, " parameters; the limit is ",
                                    kParametersMax));
  }
  if (!check.experiment.data().has_digits()) return;
  const int last = layers.size() - 1;
  if (layers[0] != kDigitsInputs) {
    check.Error(IndexedPath(kPath, 0), absl::StrCat("the first width is ", layers[0],
                                                    ", but the digits have 8x8 = ", kDigitsInputs,
                                                    " pixels; write ", kDigitsInputs));
  }
  if (layers[last] != kDigitsClasses) {
    check.Error(IndexedPath(kPath, last),
                absl::StrCat("the last width is ", layers[last], ", but the digits have ",
                             kDigitsClasses, " classes; write ", kDigitsClasses));
  }
}

void CheckWorkers(const Checker& check) {
  std::set<int> seen;
  for (int i = 0; i < check.experiment.workers_size(); ++i) {
    if (seen.insert(check.experiment.workers(i)).second) continue;
    check.Error(IndexedPath("workers", i),
                absl::StrCat(check.experiment.workers(i),
                             " is listed twice; to repeat a run, raise blocks"));
  }
}

// "write 126 or 132": the nearest that all of `workers` share equally, if there is one.
std::string NearestBatch(const std::vector<int>& workers, int batch) {
  int64_t unit = 1;
  for (const int n : workers) {
    unit = std::lcm(unit, int64_t{n});
    if (unit > kBatchMax) return "";
  }
  const int64_t below = batch / unit * unit;
  return absl::StrCat("write ", below > 0 ? absl::StrCat(below, " or ") : "", below + unit,
                      ", or ");
}

// Every worker takes the same share: the mean over workers is then the mean over samples.
void CheckBatch(const Checker& check) {
  const Experiment& experiment = check.experiment;
  if (experiment.train().global_batch_size() == 0) return;
  const int batch = experiment.train().global_batch(0);
  const std::vector<int> workers = UsableWorkers(experiment);
  if (workers.empty() || batch < 1) return;  // out of range, and said so
  constexpr char kPath[] = "train.global_batch[0]";
  std::vector<int> unequal;
  std::copy_if(workers.begin(), workers.end(), std::back_inserter(unequal),
               [&](int n) { return batch % n != 0; });
  if (!unequal.empty()) {
    check.Error(kPath, absl::StrCat(batch, " samples can't be shared equally by ",
                                    absl::StrJoin(unequal, " or "), " workers; ",
                                    NearestBatch(workers, batch), "change workers"));
  }
  if (experiment.data().has_digits() && batch > kDigitsImages) {
    check.Error(kPath, absl::StrCat(batch, " samples a step, but the digits have ", kDigitsImages,
                                    " images"));
  }
}

void CheckVariantNames(const Checker& check) {
  std::map<std::string, int> first;
  for (int i = 0; i < check.experiment.variant_size(); ++i) {
    const std::string& name = check.experiment.variant(i).name();
    const std::string path = IndexedPath("variant", i);
    if (!check.experiment.variant(i).has_name()) {
      if (!check.places.Unreadable(JoinPath(path, "name"))) {
        check.Error(path, "has no name; add name: \"...\", which the table and the report show");
      }
      continue;
    }
    const auto [it, is_first] = first.emplace(name, i);
    if (!is_first) {
      check.Error(JoinPath(path, "name"),
                  absl::StrCat("\"", name, "\" is also the name of variant[", it->second,
                               "]; results are told apart by name: choose another"));
    }
  }
}

void CheckSeeds(const Checker& check) {
  std::set<uint64_t> seen;
  for (int i = 0; i < check.experiment.train().seeds_size(); ++i) {
    const uint64_t seed = check.experiment.train().seeds(i);
    if (seen.insert(seed).second) continue;
    check.Error(IndexedPath("train.seeds", i),
                absl::StrCat(seed, " is listed twice; to repeat a run, raise blocks"));
  }
}

void CheckRuns(const Checker& check) {
  const int64_t runs = EstimateSize(check.experiment).runs;
  if (runs <= kRunsMax) return;
  const int sizes = check.experiment.workers_size();
  check.Error(
      "blocks",
      absl::StrCat(check.experiment.blocks(), " blocks of ", check.experiment.variant_size(),
                   " variants", sizes > 1 ? absl::StrCat(", ", sizes, " numbers of workers") : "",
                   " and ", check.experiment.train().seeds_size(), " seeds make ", runs,
                   " runs; the limit is ", kRunsMax));
}

void CheckLease(const Checker& check) {
  const LimitsSpec& limits = check.experiment.limits();
  const int64_t heartbeat =
      limits.has_heartbeat_ms() ? limits.heartbeat_ms() : Limits{}.heartbeat_ms;
  const int64_t lease = limits.has_lease_ms() ? limits.lease_ms() : Limits{}.lease_ms;
  if (heartbeat < lease) return;
  const char* path = limits.has_lease_ms() ? "limits.lease_ms" : "limits.heartbeat_ms";
  check.Error(
      path, absl::StrCat("heartbeat_ms is ", heartbeat, " and lease_ms is ", lease,
                         ": a member would be lost between two signs of life; lease_ms must be the "
                         "larger, best by a factor of 4"));
}

// The limit of this name, written or by default; nullopt where it is wrong by itself.
std::optional<int64_t> UsableLimit(const Checker& check, const std::string& path, int64_t value) {
  const std::optional<FieldRule> rule = FindRule(path);
  const auto number = static_cast<double>(value);
  if (check.places.Unreadable(path) || !rule.has_value()) return std::nullopt;
  if (number < rule->min || number > rule->max) return std::nullopt;
  return value;
}

// A full chunk with its header has to pass the receiver's bound.
void CheckMessageBytes(const Checker& check) {
  bool exchanges = false;
  for (const Variant& variant : check.experiment.variant()) {
    exchanges = exchanges || variant.has_ps() || variant.has_all_reduce();
  }
  if (!exchanges) return;
  constexpr char kMessage[] = "limits.message_bytes_max";
  constexpr char kChunk[] = "limits.chunk_bytes";
  const LimitsSpec& limits = check.experiment.limits();
  const auto message = UsableLimit(
      check, kMessage,
      limits.has_message_bytes_max() ? limits.message_bytes_max() : Limits{}.message_bytes_max);
  const auto chunk = UsableLimit(
      check, kChunk, limits.has_chunk_bytes() ? limits.chunk_bytes() : Limits{}.chunk_bytes);
  if (!message.has_value() || !chunk.has_value()) return;
  if (*message >= *chunk + kMessageHeaderBytes) return;
  check.Error(limits.has_message_bytes_max() ? kMessage : kChunk,
              absl::StrCat("message_bytes_max is ", *message, " and chunk_bytes is ", *chunk,
                           ": a full chunk and its header of up to ", kMessageHeaderBytes,
                           " bytes would be refused; message_bytes_max must be at least ",
                           *chunk + kMessageHeaderBytes));
}

struct PsSize {
  std::string path;  // of the variant's ps block
  int64_t servers = 1;
  int64_t workers = 0;  // 0: not known
  int64_t parameters = 0;
  int64_t shards = 1;  // that a server has a place for, and may head after losses
};

// A server can hold one push of every worker, of every shard that it may head.
void CheckStagedBytes(const Checker& check, const PsSize& size) {
  constexpr char kStaged[] = "limits.staged_bytes_max";
  const LimitsSpec& limits = check.experiment.limits();
  const auto staged = UsableLimit(
      check, kStaged,
      limits.has_staged_bytes_max() ? limits.staged_bytes_max() : Limits{}.staged_bytes_max);
  if (!staged.has_value() || size.workers == 0) return;
  constexpr int64_t kElementBytes = sizeof(float);
  // A shard is larger than the mean by less than a block.
  const int64_t shard_elements =
      (size.parameters + size.servers - 1) / size.servers + kShardBlockElements;
  const int64_t needed = size.workers * size.shards * shard_elements * kElementBytes;
  if (*staged >= needed) return;
  check.Error(
      limits.has_staged_bytes_max() ? kStaged : size.path,
      absl::StrCat("staged_bytes_max is ", *staged, ", but a server of ", size.path,
                   " may have to hold ", needed, " bytes: one push of each of ", size.workers,
                   " workers, of ", size.shards, "/", size.servers, " of ", size.parameters,
                   " parameters; raise limits.staged_bytes_max or use more servers"));
}

// Every server gets at least one block of the model.
void CheckPsSize(const Checker& check) {
  const Experiment& experiment = check.experiment;
  const Mlp& mlp = experiment.model().mlp();
  if (mlp.layers_size() < 2 || check.places.Unreadable("model.mlp.layers")) return;
  for (const int width : mlp.layers()) {
    if (width < 1) return;  // out of range, and said so
  }
  const int64_t parameters = ParameterCount(mlp);
  if (parameters > kParametersMax) return;
  const std::vector<int> sizes = UsableWorkers(experiment);
  const int workers = sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
  for (int i = 0; i < experiment.variant_size(); ++i) {
    if (!experiment.variant(i).has_ps()) continue;
    const Ps& ps = experiment.variant(i).ps();
    const std::string path = JoinPath(IndexedPath("variant", i), "ps");
    const std::string servers_path = JoinPath(path, "servers");
    const int servers = ps.servers_size() > 0 ? ps.servers(0) : 1;
    if (check.places.Unreadable(servers_path) || servers < 1 || servers > kServersMax) continue;
    const int64_t blocks = ShardBlockCount(mlp);
    if (servers > blocks) {
      check.Error(IndexedPath(servers_path, 0),
                  absl::StrCat(servers, " servers, but the model has ", blocks, " blocks of ",
                               kShardBlockElements,
                               " elements (each tensor's counted from its start), and every server "
                               "needs one; write at most ",
                               blocks));
      continue;
    }
    const int shards = ps.policy() == Ps::CHAIN ? std::min(ps.replicas() + 1, servers) : 1;
    CheckStagedBytes(check, {path, servers, workers, parameters, shards});
  }
}

}  // namespace

void CheckConflicts(const Experiment& experiment, const Places& places,
                    std::vector<SpecError>* errors) {
  const Checker check{experiment, places, errors};
  CheckLayers(check);
  CheckWorkers(check);
  CheckBatch(check);
  CheckVariantNames(check);
  CheckSeeds(check);
  CheckRuns(check);
  CheckModes(check);
  CheckDevices(check);
  CheckFaults(check);
  CheckLease(check);
  CheckMessageBytes(check);
  CheckPsSize(check);
}

}  // namespace lockstep
