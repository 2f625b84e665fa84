#include "experiments/analyse/replicas.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lockstep {
namespace {

// One probe of one run: what each rank recorded; null where a rank did not get that far.
struct ProbeRow {
  int64_t step = 0;
  std::vector<const Probed*> rank;

  bool whole() const {
    return std::all_of(rank.begin(), rank.end(), [](const Probed* p) { return p != nullptr; });
  }
  // True when two ranks that are here differ, in the parameters or in optimizer state.
  bool differs() const { return parameters_differ() || Differ(&Probed::optimizer_hash); }
  bool parameters_differ() const { return Differ(&Probed::parameters_hash); }

 private:
  bool Differ(const std::string& (Probed::*hash)() const) const {
    const Probed* first = nullptr;
    for (const Probed* probed : rank) {
      if (probed == nullptr) continue;
      if (first == nullptr) first = probed;
      if ((probed->*hash)() != (first->*hash)()) return true;
    }
    return false;
  }
};

std::vector<ProbeRow> ProbeRows(const RunRecord& run) {
  std::map<int64_t, ProbeRow> rows;
  for (size_t rank = 0; rank < run.workers.size(); ++rank) {
    for (const Probed& probed : run.workers[rank].probes) {
      ProbeRow& row = rows[probed.step()];
      row.step = probed.step();
      row.rank.resize(run.workers.size(), nullptr);
      row.rank[rank] = &probed;
    }
  }
  std::vector<ProbeRow> sorted;
  sorted.reserve(rows.size());
  for (const auto& entry : rows) sorted.push_back(entry.second);
  return sorted;
}

std::optional<int64_t> FirstDifference(const std::vector<ProbeRow>& rows) {
  for (const ProbeRow& row : rows) {
    if (row.differs()) return row.step;
  }
  return std::nullopt;
}

absl::StatusOr<double> DistanceAt(const RunRecord& run, const ProbeRow& row,
                                  const SnapshotReader& snapshots) {
  if (row.rank.size() < 2) return absl::NotFoundError("one worker has nobody to be compared with");
  if (row.whole() && !row.parameters_differ()) return 0.0;  // equal bits need no copies
  if (!snapshots) return absl::NotFoundError("parameter copies were not kept");
  std::vector<std::vector<float>> copies;
  for (size_t rank = 0; rank < row.rank.size(); ++rank) {
    if (row.rank[rank] == nullptr) {
      return absl::NotFoundError(absl::StrCat("worker ", rank, " did not reach this probe"));
    }
    if (row.rank[rank]->snapshot_offset() < 0) {
      return absl::NotFoundError(absl::StrCat("worker ", rank, " wrote no parameter copy"));
    }
    absl::StatusOr<std::vector<float>> copy =
        snapshots(run, static_cast<int>(rank), *row.rank[rank]);
    if (!copy.ok()) return Annotate(copy.status(), absl::StrCat("worker ", rank));
    copies.push_back(*std::move(copy));
  }
  return LargestRelativeDistance(copies);
}

void ShowProbes(const RunRecord& run, const std::vector<ProbeRow>& rows,
                const SnapshotReader& snapshots, ReplicaResult* replicas) {
  replicas->mutable_max_rel()->set_null_value(google::protobuf::NULL_VALUE);
  replicas->set_max_rel_reason("no probe was recorded");
  for (const ProbeRow& row : rows) {
    ProbeResult* shown = replicas->add_probes();
    shown->set_step(static_cast<double>(row.step));
    for (const Probed* probed : row.rank) {
      shown->add_hash(probed == nullptr ? "" : probed->parameters_hash());
    }
    const absl::StatusOr<double> distance = DistanceAt(run, row, snapshots);
    if (distance.ok()) {
      shown->set_max_rel(*distance);
      replicas->mutable_max_rel()->set_number_value(*distance);
      replicas->clear_max_rel_reason();
    } else {
      replicas->mutable_max_rel()->set_null_value(google::protobuf::NULL_VALUE);
      replicas->set_max_rel_reason(
          absl::StrCat("probe at step ", row.step, ": ", distance.status().message()));
    }
  }
}

// Of rank 0 after the last step; empty when it did not get there.
std::string FinalHash(const RunRecord& run) {
  if (!run.complete || run.workers[0].probes.empty()) return "";
  const Probed& last = run.workers[0].probes.back();
  return last.step() == run.steps() ? last.parameters_hash() : "";
}

void AggregateFinalHash(const std::vector<const RunRecord*>& runs, VariantResult* result) {
  std::map<uint64_t, std::string> of_seed;
  bool equal = !runs.empty();
  for (const RunRecord* run : runs) {
    const std::string hash = FinalHash(*run);
    if (hash.empty()) {
      equal = false;
      continue;
    }
    // Variants are compared by it, so it must not depend on the order in which seeds ran.
    if (result->final_hash().empty() && run->config.seed() == FirstSeed(*run)) {
      result->set_final_hash(hash);
    }
    const auto [entry, is_new] = of_seed.emplace(run->config.seed(), hash);
    equal = equal && (is_new || entry->second == hash);
  }
  result->set_repeated_hash_equal(equal);
}

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

absl::StatusOr<std::vector<float>> ReadSnapshot(const std::string& params_path,
                                                const Probed& probed) {
  const std::string what =
      absl::StrCat("read parameter copy of step ", probed.step(), " from ", params_path);
  if (probed.snapshot_offset() < 0 || probed.snapshot_bytes() < 0 ||
      probed.snapshot_bytes() % static_cast<int64_t>(sizeof(float)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": offset ", probed.snapshot_offset(),
                                                   ", bytes ", probed.snapshot_bytes()));
  }
  const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(params_path.c_str(), "rbe"));
  if (file == nullptr) return ErrnoStatus(errno, what);
  // The file's own size bounds the allocation: the record may be damaged.
  if (std::fseek(file.get(), 0, SEEK_END) != 0) return ErrnoStatus(errno, what);
  const int64_t file_bytes = std::ftell(file.get());
  if (file_bytes < 0) return ErrnoStatus(errno, what);
  if (probed.snapshot_offset() > file_bytes ||
      probed.snapshot_bytes() > file_bytes - probed.snapshot_offset()) {
    return absl::DataLossError(absl::StrCat(what, ": expected ", probed.snapshot_bytes(),
                                            " bytes at ", probed.snapshot_offset(),
                                            ", the file has ", file_bytes));
  }
  if (std::fseek(file.get(), probed.snapshot_offset(), SEEK_SET) != 0) {
    return ErrnoStatus(errno, what);
  }
  std::vector<float> copy(static_cast<size_t>(probed.snapshot_bytes()) / sizeof(float));
  if (std::fread(copy.data(), sizeof(float), copy.size(), file.get()) != copy.size()) {
    return absl::DataLossError(absl::StrCat(what, ": file ended early"));
  }
  return copy;
}

absl::StatusOr<double> LargestRelativeDistance(const std::vector<std::vector<float>>& copies) {
  if (copies.empty()) return absl::InvalidArgumentError("distance: no copies");
  double apart = 0;
  double magnitude = 0;
  for (size_t i = 0; i < copies[0].size(); ++i) {
    double low = 0;
    double high = 0;
    for (size_t rank = 0; rank < copies.size(); ++rank) {
      if (copies[rank].size() != copies[0].size()) {
        return absl::InvalidArgumentError(absl::StrCat("distance: worker ", rank, " has ",
                                                       copies[rank].size(),
                                                       " parameters, worker 0 ", copies[0].size()));
      }
      const double value = copies[rank][i];
      if (!std::isfinite(value)) {
        return absl::InvalidArgumentError(
            absl::StrCat("distance: parameter ", i, " of worker ", rank, " is not finite"));
      }
      low = rank == 0 ? value : std::min(low, value);
      high = rank == 0 ? value : std::max(high, value);
      magnitude = std::max(magnitude, std::fabs(value));
    }
    // The widest pair of an element is its largest against its smallest.
    apart = std::max(apart, high - low);
  }
  return magnitude == 0 ? 0 : apart / magnitude;
}

void AggregateReplicas(const std::vector<const RunRecord*>& runs, const SnapshotReader& snapshots,
                       VariantResult* result) {
  const RunRecord* shown = nullptr;
  std::optional<int64_t> first_diff;
  bool compared = false;
  for (const RunRecord* run : runs) {
    const std::vector<ProbeRow> rows = ProbeRows(*run);
    // One worker has nobody to be compared with, and equal start values promise nothing yet.
    compared = compared || (run->workers.size() > 1 &&
                            std::any_of(rows.begin(), rows.end(), [](const ProbeRow& row) {
                              return row.whole() && row.step >= 1;
                            }));
    first_diff = FirstDifference(rows);
    if (first_diff) {
      shown = run;
      break;
    }
    if (shown == nullptr || (run->complete && !shown->complete)) shown = run;
  }
  ReplicaResult* replicas = result->mutable_replicas();
  if (first_diff) {
    replicas->set_state("diverged");
    replicas->set_first_diff_step(static_cast<double>(*first_diff));
  } else {
    replicas->set_state(compared ? "identical" : "unchecked");
  }
  if (shown != nullptr) ShowProbes(*shown, ProbeRows(*shown), snapshots, replicas);
  if (replicas->state() == "unchecked" &&
      replicas->max_rel().kind_case() == google::protobuf::Value::kNumberValue) {
    replicas->mutable_max_rel()->set_null_value(google::protobuf::NULL_VALUE);
    replicas->set_max_rel_reason("no step was compared, only the start values");
  }
  AggregateFinalHash(runs, result);
}

}  // namespace lockstep
