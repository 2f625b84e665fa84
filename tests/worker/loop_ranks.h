// loop_ranks.h: whole ranks over loopback TCP, one thread each, without a coordinator: the real
// model and data under every collective.
#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/member/limits_proto.h"
#include "base/member/process.h"
#include "base/status.h"
#include "worker/step_loop.h"
#include "worker/summing_rank.h"
#include "worker/trainer.h"

namespace lockstep {

inline constexpr int kWorkers = 3;
inline constexpr int kSteps = 12;

// All ranks wait for each other there. One that is lost before is waited for so long and no longer.
class Meeting {
 public:
  explicit Meeting(int ranks) : missing_(ranks) {}
  void Arrive() {
    std::unique_lock lock(mutex_);
    --missing_;
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::seconds(10), [this] { return missing_ <= 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int missing_;
};

// Hears of steps, knows no coordinator.
class LoneMember final : public Member {
 public:
  LoneMember(Meeting* meeting, int64_t meets_after)
      : meeting_(*meeting), meets_after_(meets_after) {}
  const Start& start() const override { return start_; }
  const Abort& group_abort() const override { return abort_; }
  absl::Status Connected() override { return absl::OkStatus(); }
  bool MayRebuild(const absl::Status& /*status*/) const override { return false; }
  absl::Status Rebuild(const absl::Status& cause, int64_t /*step*/, const std::string& /*endpoint*/,
                       const std::vector<ShardHeld>& /*held*/) override {
    return cause;
  }
  void GiveUpGroup(int64_t /*epoch*/, const absl::Status& /*cause*/) override {}
  void Tell(const MemberEvent& /*event*/) override {}
  void FinishedStep(int64_t step) override {
    step_ = step;
    if (step == meets_after_) meeting_.Arrive();
  }
  absl::Status Done(int64_t /*step*/) override { return absl::OkStatus(); }
  absl::Status AwaitStop() override { return absl::OkStatus(); }
  absl::Status Leave(int64_t /*step*/) override { return absl::OkStatus(); }
  bool left() const override { return false; }
  void Fail(const absl::Status& /*status*/, int64_t /*step*/) override {}
  int64_t step() const { return step_; }

 private:
  Meeting& meeting_;
  const int64_t meets_after_;
  Start start_;
  Abort abort_;
  int64_t step_ = 0;
};

struct Case {
  std::string name;
  std::string variant;     // text format
  std::string experiment;  // added to the common one
  int servers = 0;
  int64_t meets_after = 0;  // no rank is further before all have finished that step; 0: none
  // How a worker is made.
  std::function<absl::StatusOr<std::unique_ptr<StepLoop>>(const Start&, LoopContext)> make_trainer =
      MakeTrainer;
};

inline Start StartOf(const Case& test) {
  Start start;
  start.set_epoch(1);
  RunConfig& run = *start.mutable_run();
  const std::string experiment = absl::StrCat(
      "model { mlp { layers: [64, 10] } } data { digits {} } train { global_batch: 12 steps: ",
      kSteps, " optimizer { sgd { momentum: 0.9 } } } bucket_cap_mb: 0.0001 trace { steps: 3 } ",
      test.experiment.find("wire_dtype") == std::string::npos ? "wire_dtype: F32 " : "",
      test.experiment);
  CHECK(google::protobuf::TextFormat::ParseFromString(experiment, run.mutable_experiment()));
  CHECK(google::protobuf::TextFormat::ParseFromString(test.variant, run.mutable_variant()));
  run.set_seed(1);
  run.set_world_size(kWorkers);
  run.set_servers(test.servers);
  const std::string folder = absl::StrCat(testing::TempDir(), "/step_loop_", test.name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  run.set_record_dir(folder);
  return start;
}

struct RankResult {
  absl::Status status;
  int64_t heard_step = 0;  // by the member
  std::vector<Record> records;
};

// [rank]: workers, then servers.
inline std::vector<RankResult> RunAll(const Case& test) {
  Start start = StartOf(test);
  const int ranks = kWorkers + test.servers;
  std::vector<Listener> listeners;
  for (int rank = 0; rank < ranks; ++rank) {
    absl::StatusOr<Listener> listener = Listen({"127.0.0.1", 0});
    CHECK(listener.ok()) << listener.status();
    MemberInfo* member = start.add_member();
    member->set_role(rank < kWorkers ? WORKER : SERVER);
    member->set_index(rank < kWorkers ? rank : rank - kWorkers);
    member->set_endpoint(listener->endpoint.ToString());
    listeners.push_back(*std::move(listener));
  }
  const MonotonicClock clock;
  const Abort abort;
  Meeting meeting(ranks);
  std::vector<RankResult> results(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  threads.reserve(results.size());
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      RankResult& result = results[static_cast<size_t>(rank)];
      const bool trains = rank < kWorkers;
      const std::string role = trains ? "worker" : "server";
      const int index = trains ? rank : rank - kWorkers;
      LoopContext context{.index = index,
                          .token = "token",
                          .limits = LimitsFrom(start.run().experiment().limits()),
                          .clock = &clock};
      context.started = DescribeProcess(role, index, start.run());
      LoneMember member(&meeting, test.meets_after);
      auto loop = trains ? test.make_trainer(start, std::move(context))
                         : MakeSummingRank(start, std::move(context));
      result.status = loop.status();
      const auto train = [&]() -> absl::Status {
        RETURN_IF_ERROR(
            (*loop)->Connect(start, std::move(listeners[static_cast<size_t>(rank)]), abort));
        return (*loop)->Run(&member);
      };
      if (loop.ok()) result.status = (*loop)->RecordEnd(train());
      if (loop.ok()) loop->reset();  // closes its links
      result.heard_step = member.step();
      auto records = ReadRecords(RecordPath(start.run().record_dir(), role, index));
      if (records.ok()) result.records = *std::move(records);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

inline std::vector<StepDone> StepsOf(const RankResult& rank) {
  std::vector<StepDone> steps;
  for (const Record& record : rank.records) {
    if (record.has_step()) steps.push_back(record.step());
  }
  return steps;
}

inline std::string FinalHash(const RankResult& rank) {
  std::string hash;
  for (const Record& record : rank.records) {
    if (record.has_probed()) hash = record.probed().parameters_hash();
  }
  return hash;
}

inline std::string AllReduceVariant(const std::string& algorithm, int servers = 0) {
  std::string text = absl::StrCat("name: \"v\" all_reduce { algorithm: ", algorithm);
  if (servers > 0) absl::StrAppend(&text, " servers: ", servers);
  return text + " }";
}

}  // namespace lockstep
