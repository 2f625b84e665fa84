// Meeting and losing the coordinator, with real worker processes and the real coordinator in this
// process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "base/clock.h"
#include "base/member/limits_proto.h"
#include "base/member/member.h"
#include "base/member/record_writer.h"
#include "base/socket.h"
#include "experiments/coordinator/server.h"
#include "experiments/spec/spec.h"
#include "tests/support/places.h"
#include "tests/support/status_matchers.h"
#include "tests/system/command.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

constexpr char kToken[] = "secret";

// A coordinator for `workers` workers of the quickstart's `variant`.
class Coordination {
 public:
  Coordination(int workers, const std::vector<std::string>& set,
               const std::string& variant = "ring") {
    SpecOptions options{.only = {variant}};
    options.set = {"workers=" + std::to_string(workers),
                   "train.global_batch=" + std::to_string(8 * workers), "train.steps=1000000"};
    options.set.insert(options.set.end(), set.begin(), set.end());
    const LoadedSpec loaded = LoadSpec(*FindSpec("quickstart"), options);
    EXPECT_THAT(loaded.status(), IsOk());
    config_.run = PlanRuns(loaded.experiment).front();
    config_.run.set_record_dir(dir_.path());
    config_.limits = LimitsFrom(config_.run.experiment().limits());
    config_.build = BuildId();
    config_.token = kToken;
    auto server = CoordinatorServer::Listen({"127.0.0.1", 0}, config_, clock_);
    EXPECT_THAT(server, IsOk());
    server_ = *std::move(server);
  }

  void StartWorker(int rank, const std::string& token = kToken,
                   const std::vector<std::string>& flags = {}) {
    std::vector<std::string> words = {BinDir() + "/worker",
                                      "--coordinator",
                                      server_->endpoint(),
                                      "--rank",
                                      std::to_string(rank),
                                      "--token",
                                      token};
    words.insert(words.end(), flags.begin(), flags.end());
    workers_.push_back(std::make_unique<Subprocess>(words));
  }
  void Start(const MemberId& member) {
    if (member.role == WORKER) return StartWorker(member.index);
    workers_.push_back(std::make_unique<Subprocess>(
        std::vector<std::string>{BinDir() + "/ps_server", "--coordinator", server_->endpoint(),
                                 "--index", std::to_string(member.index), "--token", kToken}));
  }
  // Ticks until `condition`, collecting the user's lines.
  template <typename Condition>
  bool TickUntil(const Condition& condition, double timeout_s) {
    return Eventually(
        [&] {
          server_->Tick();
          for (const std::string& line : server_->TakeLines()) lines_ += line + "\n";
          return condition();
        },
        timeout_s);
  }
  CoordinatorServer& server() { return *server_; }
  void Drop() { server_.reset(); }
  Subprocess& worker(size_t position) { return *workers_[position]; }
  const std::string& lines() const { return lines_; }
  void ForgetLines() { lines_.clear(); }
  std::vector<Record> Records(const std::string& role, int index) const {
    auto records = ReadRecords(RecordPath(dir_.path(), role, index));
    EXPECT_THAT(records, IsOk());
    return records.ok() ? *std::move(records) : std::vector<Record>();
  }

 private:
  const TemporaryDir dir_;
  const MonotonicClock clock_;
  MembershipConfig config_;
  std::unique_ptr<CoordinatorServer> server_;
  std::vector<std::unique_ptr<Subprocess>> workers_;
  std::string lines_;
};

// CASES R14: 3 declared, 2 started.
TEST(JoinTest, WaitingIsVisibleAndEndsAtTheTimeout) {
  Coordination run(3, {"limits.join_timeout_ms=1500", "limits.waiting_line_ms=400"});
  run.StartWorker(0);
  run.StartWorker(2);
  ASSERT_TRUE(run.TickUntil([&] { return run.server().stopping(); }, 10));
  EXPECT_THAT(run.lines(), HasSubstr("waiting for worker 1; present: worker 0, worker 2"));
  EXPECT_THAT(run.server().outcome(),
              StatusIs(StatusCode::kDeadlineExceeded, "waiting for worker 1"));
  for (size_t position = 0; position < 2; ++position) {
    const CommandResult result = run.worker(position).Wait(5);
    EXPECT_EQ(result.exit_code, 3) << result.err;
    EXPECT_THAT(result.err, HasSubstr("waiting for worker 1"));
  }
}

TEST(JoinTest, SurplusAndStrangersAreRefusedWithTheReason) {
  Coordination run(2, {});
  run.StartWorker(5);
  run.StartWorker(0, "guess");
  ASSERT_TRUE(run.TickUntil(
      [&] {
        return run.lines().find("token") != std::string::npos &&
               run.lines().find("too many") != std::string::npos;
      },
      10));
  const CommandResult surplus = run.worker(0).Wait(5);
  EXPECT_EQ(surplus.exit_code, 2);
  EXPECT_THAT(surplus.err, HasSubstr("worker 5 is one too many: the run declares 2 workers"));
  const CommandResult stranger = run.worker(1).Wait(5);
  EXPECT_EQ(stranger.exit_code, 2);
  EXPECT_THAT(stranger.err, HasSubstr("wrong token"));
  EXPECT_FALSE(run.server().stopping());
}

TEST(JoinTest, AWorkerThatWouldComputeOtherwiseIsRefusedWithBothSides) {
  Coordination run(2, {});
  run.StartWorker(0, kToken, {"--device", "GPU", "--math", "TF32"});
  ASSERT_TRUE(
      run.TickUntil([&] { return run.lines().find("refused worker 0") != std::string::npos; }, 10));
  const CommandResult other = run.worker(0).Wait(5);
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err,
              HasSubstr("it would compute with device GPU, math TF32, the run says device CPU, "
                        "math STRICT; start it without --device and --math, or write "
                        "mixed_devices: true"));
  EXPECT_FALSE(run.server().stopping());
}

TEST(JoinTest, MembersLeaveWhenTheCoordinatorIsGone) {
  Coordination run(2, {"limits.lease_ms=2000", "limits.stop_grace_ms=100"});
  run.StartWorker(0);
  run.StartWorker(1);
  ASSERT_TRUE(run.TickUntil([&] { return run.server().step() > 5; }, 20));
  run.Drop();
  for (size_t position = 0; position < 2; ++position) {
    const CommandResult result = run.worker(position).Wait(5);
    EXPECT_EQ(result.exit_code, 3) << result.err;
    EXPECT_THAT(result.err, HasSubstr("lost the coordinator"));
  }
}

TEST(JoinTest, MembersLeaveWhenTheCoordinatorIsSilent) {
  Coordination run(2, {"limits.lease_ms=1000"});
  run.StartWorker(0);
  run.StartWorker(1);
  ASSERT_TRUE(run.TickUntil([&] { return run.server().step() > 5; }, 20));
  for (size_t position = 0; position < 2; ++position) {  // no ticks: no signs of life
    const CommandResult result = run.worker(position).Wait(5);
    EXPECT_EQ(result.exit_code, 3) << result.err;
    EXPECT_THAT(result.err, HasSubstr("was silent for"));
  }
}

// CASES R65: the server and both workers, in every order; each comes when the one before has
// joined.
TEST(JoinTest, TheOrderOfStartsChangesNothing) {
  std::vector<MemberId> order = {{WORKER, 0}, {WORKER, 1}, {SERVER, 0}};
  std::set<std::string> final_hashes;
  do {
    Coordination run(
        2, {"train.steps=5", "variant[ps_sync].ps.servers=1", "limits.waiting_line_ms=20"},
        "ps_sync");
    for (const MemberId& member : order) {
      run.Start(member);
      if (member == order.back()) break;
      ASSERT_TRUE(run.TickUntil(
          [&] {
            const size_t present = run.lines().rfind("present:");
            return present != std::string::npos &&
                   run.lines().find(member.ToString(), present) != std::string::npos;
          },
          10));
    }
    ASSERT_TRUE(run.TickUntil([&] { return run.server().stopping(); }, 20));
    EXPECT_THAT(run.server().outcome(), IsOk());
    for (size_t position = 0; position < order.size(); ++position) {
      EXPECT_EQ(run.worker(position).Wait(5).exit_code, 0);
    }
    for (int rank = 0; rank < 2; ++rank) {
      std::vector<int64_t> steps;
      std::string hash;
      for (const Record& record : run.Records("worker", rank)) {
        if (record.has_step()) steps.push_back(record.step().step());
        if (record.has_probed()) hash = record.probed().parameters_hash();
      }
      EXPECT_THAT(steps, testing::ElementsAre(1, 2, 3, 4, 5));
      final_hashes.insert(hash);
    }
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(final_hashes.size(), 1U);
}

// The stream was once opened where nobody looks at the abort: Ctrl-C came through after 20 s only.
TEST(JoinTest, CtrlCEndsTheWaitForACoordinatorThatDoesNotAnswer) {
  const auto silent = Listen({"127.0.0.1", 0});  // takes connections, says nothing
  ASSERT_THAT(silent, IsOk());
  Subprocess worker(
      {BinDir() + "/worker", "--coordinator", silent->endpoint.ToString(), "--rank", "0"});
  pollfd connection{silent->fd.get(), POLLIN, 0};
  ASSERT_EQ(poll(&connection, 1, 10'000), 1) << "the worker did not connect";
  worker.Signal(SIGINT);
  const CommandResult result = worker.Wait(10);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_LT(result.elapsed_s, 2);
}

TEST(JoinTest, NoCoordinatorIsAnErrorNotAWait) {
  const CommandResult result =
      RunCommand({BinDir() + "/worker", "--coordinator", "127.0.0.1:1", "--rank", "0"}, 20);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("127.0.0.1:1"));
}

struct LimitCase {
  std::string name;
  std::vector<std::string> set;
  std::string variant;
  std::string message;
};
class LimitTest : public testing::TestWithParam<LimitCase> {};

// Every bound comes from one options struct; at its minimum it is the error that one reads.
TEST_P(LimitTest, AtItsMinimumIsNamed) {
  const LimitCase& test = GetParam();
  const TemporaryDir dir;
  std::vector<std::string> arguments = {"--quick",    "--plain", "--only",
                                        test.variant, "--out",   dir.path() + "/out"};
  for (const std::string& set : test.set) {
    arguments.insert(arguments.end(), {"--set", "limits." + set});
  }
  const CommandResult result = RunCommand(CompareCommand(arguments), 30);
  EXPECT_FALSE(result.timed_out);
  EXPECT_NE(result.exit_code, 0);
  // What a terminal shows is wrapped, wherever a number's width makes a line too long.
  const std::string text = absl::StrReplaceAll(result.out + result.err, {{"\n", " "}});
  EXPECT_THAT(text, HasSubstr(test.message));
}

INSTANTIATE_TEST_SUITE_P(
    Join, LimitTest,
    testing::Values(
        LimitCase{"JoinTimeout", {"join_timeout_ms=1"}, "ring", "join_timeout_ms 1"},
        LimitCase{"Lease", {"heartbeat_ms=1", "lease_ms=2"}, "ring", "lease_ms 2"},
        LimitCase{"LeaseBelowHeartbeat", {"lease_ms=1"}, "ring", "lease_ms"},
        LimitCase{"MessageBytes", {"message_bytes_max=1024"}, "ps_sync", "message_bytes_max"},
        LimitCase{"StagedBytes", {"staged_bytes_max=1"}, "ps_sync", "staged_bytes_max"},
        LimitCase{"SyncTimeoutRing", {"sync_timeout_ms=1"}, "ring", "sync_timeout_ms"},
        LimitCase{"SyncTimeoutPs", {"sync_timeout_ms=1"}, "ps_sync", "sync_timeout_ms"}),
    [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace lockstep
