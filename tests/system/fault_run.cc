#include "tests/system/fault_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/member/record_writer.h"
#include "experiments/analyse/replicas.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

std::string WayOf(const FaultRunOptions& options) {
  if (!options.ps.empty()) return absl::StrCat("ps { ", options.ps, " }");
  return absl::StrCat("all_reduce { algorithm: ", options.algorithm, " on_loss: ", options.on_loss,
                      " }");
}

std::string SpecOf(const FaultRunOptions& options) {
  std::string text = absl::StrCat(
      "name: \"faults\" model { mlp { layers: [64, 32, 10] } } data { digits {} }\n"
      "train { global_batch: 24 steps: ",
      options.steps, " optimizer { sgd { momentum: 0.9 } } } bucket_cap_mb: 0.001\n",
      "workers: ", options.workers, " blocks: 1 probe { every: 5 keep_snapshots: true }\n",
      "limits { lease_ms: ", kLeaseMs, " sync_timeout_ms: ", kSyncMs,
      " heartbeat_ms: 100 settle_ms: 150 stop_grace_ms: 1000 rebuild_timeout_ms: 15000 }\n",
      "variant { name: \"v\" ", WayOf(options), " }\n");
  for (const std::string& fault : options.faults) {
    absl::StrAppend(&text, "fault { ", fault, " }\n");
  }
  return text;
}

std::string RecordsOf(const TemporaryDir& dir) { return dir.path() + "/out/blocks/1-v-seed-1"; }

}  // namespace

FaultRun::FaultRun(const FaultRunOptions& options) : options_(options) {
  std::vector<std::string> arguments = {SpecFile(dir_, SpecOf(options))};
  for (const std::string& set : options.set) arguments.insert(arguments.end(), {"--set", set});
  compared_ = Compare(dir_, arguments, 40);
  for (int index = 0; index < options.workers; ++index) {
    auto records = ReadMember(RecordsOf(dir_) + "/records", "worker", index);
    EXPECT_THAT(records.status(), IsOk()) << compared_.result.err;
    records_.push_back(records.ok() ? *std::move(records) : std::vector<Record>());
  }
  for (int index = 0;; ++index) {
    auto records = ReadMember(RecordsOf(dir_) + "/records", "server", index);
    if (!records.ok()) break;
    servers_.push_back(*std::move(records));
  }
}

std::string FaultRun::FinalHash(int index) const {
  std::string hash;
  for (const Record& record : worker(index)) {
    if (record.has_probed() && record.probed().step() == options_.steps) {
      hash = record.probed().parameters_hash();
    }
  }
  return hash;
}

std::vector<float> FaultRun::FinalParameters(int index) const {
  for (const Record& record : worker(index)) {
    if (!record.has_probed() || record.probed().step() != options_.steps) continue;
    const auto parameters = ReadSnapshot(
        RecordPath(RecordsOf(dir_) + "/records", "worker", index) + ".params", record.probed());
    EXPECT_THAT(parameters, IsOk());
    return parameters.ok() ? *parameters : std::vector<float>();
  }
  return {};
}

std::vector<std::string> FaultRun::Injections() const {
  std::vector<std::pair<int64_t, std::string>> timed;
  for (const std::vector<Record>& records : records_) {
    for (const Record& record : records) {
      if (!record.has_injected()) continue;
      const Injected& injected = record.injected();
      timed.emplace_back(record.time_ns(),
                         absl::StrCat(injected.kind(), " of fault ", injected.fault(), " at step ",
                                      injected.step(), ", planned ", injected.planned_step()));
    }
  }
  std::sort(timed.begin(), timed.end());
  std::vector<std::string> texts;
  texts.reserve(timed.size());
  for (auto& [time_ns, text] : timed) texts.push_back(std::move(text));
  return texts;
}

std::vector<Rebuilt> FaultRun::Rebuilds(int index) const {
  std::vector<Rebuilt> rebuilds;
  for (const Record& record : worker(index)) {
    if (record.has_rebuilt()) rebuilds.push_back(record.rebuilt());
  }
  return rebuilds;
}

std::string FaultRun::Log(const std::string& name) const {
  std::ostringstream text;
  text << std::ifstream(RecordsOf(dir_) + "/logs/" + name).rdbuf();
  return text.str();
}

const std::string& Undisturbed::HashOf(const std::string& algorithm, int workers, int steps) {
  std::string& hash = hashes_[absl::StrCat(algorithm, workers, "/", steps)];
  if (!hash.empty()) return hash;
  const FaultRun run({.algorithm = algorithm, .workers = workers, .steps = steps});
  EXPECT_EQ(run.result().exit_code, 0) << run.result().err;
  hash = run.FinalHash(0);
  for (int index = 0; index < workers; ++index) EXPECT_EQ(run.FinalHash(index), hash);
  EXPECT_FALSE(hash.empty());
  return hash;
}

}  // namespace lockstep
