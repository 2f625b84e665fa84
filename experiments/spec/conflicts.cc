#include "experiments/spec/conflicts.h"

#include <cstdint>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "experiments/spec/rules.h"
#include "experiments/spec/size.h"

namespace lockstep {
namespace {

constexpr int64_t kRunsMax = 10'000;  // each keeps its records: weeks and gigabytes
// 1 GiB of f32, with as much again for gradients and optimizer in every process.
constexpr int64_t kParametersMax = int64_t{1} << 28;

struct Checker {
  const Experiment& experiment;
  const Places& places;
  std::vector<SpecError>* errors;

  void Error(const std::string& path, const std::string& message) const {
    errors->push_back({.place = places.Find(path), .message = absl::StrCat(path, ": ", message)});
  }
};

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

// Every worker takes the same share: the mean over workers is then the mean over samples.
void CheckBatch(const Checker& check) {
  const Experiment& experiment = check.experiment;
  if (experiment.workers_size() == 0 || experiment.train().global_batch_size() == 0) return;
  const int workers = experiment.workers(0);
  const int batch = experiment.train().global_batch(0);
  if (workers < 1 || workers > kWorkersMax || batch < 1) return;  // out of range, and said so
  constexpr char kPath[] = "train.global_batch[0]";
  if (batch % workers != 0) {
    const int below = batch / workers * workers;
    check.Error(kPath,
                absl::StrCat(batch, " samples can't be shared equally by ", workers,
                             " workers; write ", below > 0 ? absl::StrCat(below, " or ") : "",
                             below + workers, ", or change workers"));
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
  check.Error("blocks", absl::StrCat(check.experiment.blocks(), " blocks of ",
                                     check.experiment.variant_size(), " variants and ",
                                     check.experiment.train().seeds_size(), " seeds make ", runs,
                                     " runs; the limit is ", kRunsMax));
}

// R41: settings of one mode beside another mode are refused, naming both.
void CheckPs(const Checker& check) {
  for (int i = 0; i < check.experiment.variant_size(); ++i) {
    if (!check.experiment.variant(i).has_ps()) continue;
    const Ps& ps = check.experiment.variant(i).ps();
    const std::string path = JoinPath(IndexedPath("variant", i), "ps");
    const std::string mode = Ps::Mode_Name(ps.mode());
    if (ps.has_staleness() && ps.mode() != Ps::BOUNDED) {
      check.Error(JoinPath(path, "staleness"),
                  absl::StrCat("conflicts with mode ", mode,
                               ": only mode BOUNDED reads it, and that is not "
                               "built yet; remove staleness"));
    }
    if (ps.has_k() && ps.mode() != Ps::K_OF_N) {
      check.Error(JoinPath(path, "k"), absl::StrCat("conflicts with mode ", mode,
                                                    ": only mode K_OF_N reads it, "
                                                    "and that is not built yet; remove k"));
    }
  }
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

}  // namespace

void CheckConflicts(const Experiment& experiment, const Places& places,
                    std::vector<SpecError>* errors) {
  const Checker check{experiment, places, errors};
  CheckLayers(check);
  CheckBatch(check);
  CheckVariantNames(check);
  CheckSeeds(check);
  CheckRuns(check);
  CheckPs(check);
  CheckLease(check);
}

}  // namespace lockstep
