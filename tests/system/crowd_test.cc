// CASES R51: more processes than processors. 16 workers and 2 servers on 2 processors start without
// special flags, finish, and warn once; whoever waits for a member that stands still waits asleep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/member/record_writer.h"
#include "tests/system/comparison.h"

namespace lockstep {
namespace {

constexpr int kWorkers = 16;
constexpr double kWindowS = 2;
constexpr double kBusyMax = 0.05;

std::string SpecText(const std::string& variant) {
  return absl::StrCat(
      "name: \"crowd\" model { mlp { layers: [64, 16, 10] } } data { digits {} }\n"
      "train { global_batch: 32 steps: 300 }\n",
      "workers: ", kWorkers, " blocks: 1 probe { every: 100 }\n",
      "limits { lease_ms: 60000 sync_timeout_ms: 60000 }\n", "variant { name: \"v\" ", variant,
      " }\n");
}

// This process and those that it starts.
void UseTwoProcessors() {
  cpu_set_t usable;
  ASSERT_EQ(sched_getaffinity(0, sizeof(usable), &usable), 0);
  cpu_set_t two;
  CPU_ZERO(&two);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&two) < 2; ++cpu) {
    if (CPU_ISSET(cpu, &usable)) CPU_SET(cpu, &two);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(two), &two), 0);
}

// Processor time of all threads so far, in seconds.
double CpuSeconds(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string text;
  std::getline(file, text);
  const std::vector<std::string> fields =
      absl::StrSplit(text.substr(text.rfind(") ") + 2), ' ');  // from field 3 on, `man proc`
  constexpr size_t kUser = 14 - 3;
  constexpr size_t kSystem = 15 - 3;
  return (std::stod(fields.at(kUser)) + std::stod(fields.at(kSystem))) /
         static_cast<double>(sysconf(_SC_CLK_TCK));
}

struct CrowdCase {
  std::string name;
  std::string variant;
  int processes;
  std::string stands_still;  // its role; the first of them
};
class CrowdTest : public testing::TestWithParam<CrowdCase> {
 protected:
  std::string RecordFile(const std::string& role, int index) const {
    return RecordPath(dir_.path() + "/out/blocks/1-v-seed-1/records", role, index);
  }
  // 0: its record has not begun.
  pid_t Pid(const std::string& role, int index) const {
    const auto records = ReadRecords(RecordFile(role, index));
    if (!records.ok() || records->empty()) return 0;
    return static_cast<pid_t>(records->front().started().pid());
  }
  bool Trains(int rank) const {
    const auto records = ReadRecords(RecordFile("worker", rank));
    if (!records.ok()) return false;
    for (const Record& record : *records) {
      if (record.has_step() && record.step().step() >= 3) return true;
    }
    return false;
  }

  const TemporaryDir dir_;
};

TEST_P(CrowdTest, StartsFinishesWarnsOnceAndWaitsAsleep) {
  const CrowdCase& crowd = GetParam();
  ASSERT_NO_FATAL_FAILURE(UseTwoProcessors());
  Subprocess command(CompareCommand(
      {SpecFile(dir_, SpecText(crowd.variant)), "--plain", "--out", dir_.path() + "/out"}));
  for (int rank = 0; rank < kWorkers; ++rank) {
    ASSERT_TRUE(Eventually([&] { return Trains(rank); }, 60)) << "worker " << rank;
  }
  const pid_t still = Pid(crowd.stands_still, 0);
  ASSERT_GT(still, 1);
  ASSERT_EQ(kill(still, SIGSTOP), 0);
  const auto wait = [](double seconds) { Eventually([] { return false; }, seconds); };
  wait(0.5);  // the others come to where they need it
  std::vector<double> before_s;
  for (int rank = 0; rank < kWorkers; ++rank) before_s.push_back(CpuSeconds(Pid("worker", rank)));
  wait(kWindowS);
  for (int rank = 0; rank < kWorkers; ++rank) {
    const double busy =
        (CpuSeconds(Pid("worker", rank)) - before_s[static_cast<size_t>(rank)]) / kWindowS;
    EXPECT_LT(busy, kBusyMax) << "worker " << rank;
  }
  kill(still, SIGCONT);
  const CommandResult result = command.Wait(120);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const std::string warning =
      absl::StrCat("lockstep: up to ", crowd.processes, " processes on 2 cores");
  const std::vector<std::string> around = absl::StrSplit(result.err, warning);
  EXPECT_EQ(around.size(), 2U) << "once: " << result.err;
}

INSTANTIATE_TEST_SUITE_P(
    Crowd, CrowdTest,
    testing::Values(CrowdCase{"Servers", "ps { mode: SYNC servers: 2 }", kWorkers + 2, "server"},
                    CrowdCase{"Ring", "all_reduce { algorithm: RING }", kWorkers, "worker"},
                    CrowdCase{"SharedMemory", "all_reduce { algorithm: DIRECT link: SHM }",
                              kWorkers, "worker"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep
