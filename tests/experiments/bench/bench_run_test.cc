// `lockstep bench allreduce` with real processes: a tiny run of all that is here, and ranks that
// die or hang.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/types.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "allreduce/engine.h"
#include "allreduce/transport/shm_bell.h"
#include "experiments/bench/bench_json.h"
#include "tests/support/places.h"
#include "tests/support/status_matchers.h"
#include "tests/system/command.h"

namespace lockstep {
namespace {

using testing::Contains;
using testing::HasSubstr;

std::vector<std::string> BenchCommand(std::vector<std::string> arguments) {
  std::vector<std::string> command = {BinDir() + "/lockstep", "bench", "allreduce"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

bool Here(Engine engine) { return CheckEngine(engine, BinDir()).ok(); }

pid_t ParentOf(pid_t process) {
  std::ifstream stat(absl::StrCat("/proc/", process, "/stat"));
  std::string word;
  pid_t parent = 0;
  stat >> word >> word >> word >> parent;
  return parent;
}

// Pids of this bench's rank processes of one engine, found by their command lines; mpirun may stand
// between.
std::vector<pid_t> RanksOf(pid_t bench, const std::string& engine) {
  const std::string flag = absl::StrCat("--engine", std::string(1, '\0'), engine);
  std::vector<pid_t> ranks;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (!std::all_of(name.begin(), name.end(), [](char c) { return std::isdigit(c) != 0; })) {
      continue;
    }
    std::ifstream cmdline(entry.path() / "cmdline");
    std::string words;
    std::getline(cmdline, words);
    const std::string program = words.substr(0, words.find('\0'));
    const pid_t pid = std::stoi(name);
    const bool ours = ParentOf(pid) == bench || ParentOf(ParentOf(pid)) == bench;
    if (ours && absl::EndsWith(program, "/allreduce_rank") && absl::StrContains(words, flag)) {
      ranks.push_back(pid);
    }
  }
  return ranks;
}

TEST(BenchRunTest, EveryContestantIsRightAndTheJsonSaysSo) {
  TemporaryDir dir;
  const std::string csv = dir.path() + "/rows.csv";
  const CommandResult result = RunCommand(
      BenchCommand({"--quick", "--sizes", "4,64KiB", "--ranks", "2,3", "--csv", csv, "--json"}),
      100);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto file = BenchFromJson(result.out);
  ASSERT_THAT(file, IsOk());
  std::set<std::string> seen;
  for (const BenchRow& row : file->rows()) {
    EXPECT_TRUE(row.correct()) << row.DebugString();
    EXPECT_GT(row.time_us().p50(), 0);
    EXPECT_GE(row.time_us().p99(), row.time_us().p50());
    EXPECT_GT(row.cpu_ms_per_op(), 0);
    seen.insert(absl::StrCat(row.engine(), " ", row.link(), " n", row.ranks()));
    EXPECT_EQ(row.congestion_control().empty(), row.link() != "tcp") << row.DebugString();
  }
  for (const char* const n : {"n2", "n3"}) {
    EXPECT_THAT(seen, Contains(absl::StrCat("host tcp ", n)));
    EXPECT_THAT(seen, Contains(absl::StrCat("host shm ", n)));
    EXPECT_EQ(seen.contains(absl::StrCat("mpi shm ", n)), Here(Engine::kMpi));
    EXPECT_EQ(seen.contains(absl::StrCat("mpi tcp ", n)), Here(Engine::kMpi));
    EXPECT_EQ(seen.contains(absl::StrCat("gloo tcp ", n)), Here(Engine::kGloo));
  }
  EXPECT_GT(file->roofs().memcpy_gb_s(), 0);
  EXPECT_GT(file->roofs().tcp_gb_s(), 0);
  EXPECT_EQ(file->comparisons().empty(), !Here(Engine::kMpi) && !Here(Engine::kGloo));
  EXPECT_EQ(file->crossings_size(), 6);  // ring and tree on both links, 2 rank counts; and over
                                         // TCP ring and recursive doubling
  EXPECT_TRUE(std::filesystem::exists(csv));
}

// Libraries that cannot be told have it all the same: the route carries it.
TEST(BenchRunTest, CongestionControlIsThatAskedForInEveryRow) {
  const CommandResult result =
      RunCommand(BenchCommand({"--sizes", "4", "--ranks", "2", "--rounds", "1", "--links", "tcp",
                               "--algorithms", "ring", "--congestion", "reno", "--json"}),
                 60);
  if (result.exit_code == 4) GTEST_SKIP() << result.err;
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto file = BenchFromJson(result.out);
  ASSERT_THAT(file, IsOk());
  EXPECT_GT(file->rows_size(), 0);
  for (const BenchRow& row : file->rows()) {
    EXPECT_EQ(row.congestion_control(), "reno") << row.DebugString();
  }
}

TEST(BenchRunTest, AnUnknownCongestionControlIsRefusedWithTheKnownOnes) {
  const CommandResult result = RunCommand(BenchCommand({"--congestion", "carrier_pigeon"}), 10);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("'carrier_pigeon' is none of "));
}

TEST(BenchRunTest, R66TheWaysAsRowsOfOneTable) {
  const CommandResult result =
      RunCommand(BenchCommand({"--sizes", "64KiB", "--ranks", "3", "--rounds", "1", "--links",
                               "tcp", "--peers", "none", "--json", "--algorithms",
                               "ps_exchange,reduce_broadcast,reduce_scatter_all_gather,ring,tree"}),
                 60);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto file = BenchFromJson(result.out);
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(file->rows_size(), 10);  // five ways, with 1 and 2 channels
  for (const BenchRow& row : file->rows()) {
    EXPECT_TRUE(row.correct()) << row.DebugString();
    EXPECT_GT(row.chain(), 0) << row.DebugString();
    EXPECT_GT(row.modelled_us(), 0) << row.DebugString();
    EXPECT_GT(row.sent_size(), 0);
    for (const BenchSent& sent : row.sent()) EXPECT_GT(sent.messages(), 0);
  }
}

// Gloo's older algorithms leave their connections with the least send buffer there is; on the same
// connections its ring would need some minutes for this.
TEST(BenchRunTest, GloosAlgorithmsDoNotSlowEachOther) {
  if (!Here(Engine::kGloo)) GTEST_SKIP() << "Gloo is not here";
  const CommandResult result =
      RunCommand(BenchCommand({"--sizes", "16MiB", "--ranks", "4", "--rounds", "2", "--links",
                               "tcp", "--algorithms", "ring", "--channels", "1", "--peers", "gloo",
                               "--timeout-ms", "10000", "--json"}),
                 100);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto file = BenchFromJson(result.out);
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(file->rows_size(), 4);  // ours and its three
  for (const BenchRow& row : file->rows()) EXPECT_TRUE(row.correct()) << row.DebugString();
}

TEST(BenchRunTest, OneRankAloneIsAskedForNothing) {
  const CommandResult result = RunCommand(
      BenchCommand({"--sizes", "4", "--ranks", "1", "--rounds", "1", "--algorithms", "ring"}), 60);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("n/a"));
}

TEST(BenchRunTest, BadUsageIsRefusedBeforeAnythingStarts) {
  const CommandResult result = RunCommand(BenchCommand({"--dtype", "i32", "--op", "avg"}), 10);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--dtype i32 --op avg"));
}

struct Hit {
  std::string name;
  std::string engine;
  int signal;
};
class HitRankTest : public testing::TestWithParam<Hit> {};
INSTANTIATE_TEST_SUITE_P(All, HitRankTest,
                         testing::Values(Hit{"HostDies", "host", SIGKILL},
                                         Hit{"GlooDies", "gloo", SIGKILL},
                                         Hit{"MpiDies", "mpi", SIGKILL},
                                         Hit{"HostHangs", "host", SIGSTOP},
                                         Hit{"GlooHangs", "gloo", SIGSTOP}),
                         [](const auto& param) { return param.param.name; });

// Ours ends the bench, a library is left out of it; the sizes that were finished are printed.
TEST_P(HitRankTest, IsNamedWithCode3AndTheOtherRowsStand) {
  const std::optional<Engine> engine = EngineNamed(GetParam().engine);
  if (engine.has_value() && !Here(*engine)) GTEST_SKIP() << "its library is not here";
  Subprocess bench(
      BenchCommand({"--sizes", "4,1MiB", "--ranks", "3", "--rounds", "100000", "--seconds", "4",
                    "--links", "tcp", "--algorithms", "ring", "--peers",
                    engine.has_value() ? GetParam().engine : "none", "--timeout-ms", "1000"}));
  std::vector<pid_t> ranks;
  ASSERT_TRUE(Eventually(
      [&] { return (ranks = RanksOf(bench.pid(), GetParam().engine)).size() >= 3; }, 20));
  ASSERT_TRUE(
      Eventually([&] { return bench.ErrSoFar().find("3 ranks, 1 MiB") != std::string::npos; }, 20));
  poll(nullptr, 0, 500);  // into its rounds
  std::sort(ranks.begin(), ranks.end());
  kill(ranks[1], GetParam().signal);
  const CommandResult result = bench.Wait(30);
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr("rank 1")) << result.err;
  EXPECT_THAT(result.err, HasSubstr(GetParam().engine + " over tcp"));
  EXPECT_THAT(result.out, HasSubstr("4 B  host"));
  EXPECT_EQ(result.out.find("1 MiB  host") != std::string::npos, engine.has_value());
}

// The cores that a process may use; empty: it is gone.
std::set<int> CoresOf(pid_t process) {
  std::set<int> cores;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(process, sizeof(allowed), &allowed) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.insert(core);
  }
  return cores;
}

// A rank that others wake up onto their core stays there, and mpirun binds its own: unlike things.
TEST(BenchRunTest, RanksHaveACoreEachWhereThereAreEnough) {
  if (AllowedCores() < 2) GTEST_SKIP() << "one core";
  const bool mpi = Here(Engine::kMpi);
  Subprocess bench(
      BenchCommand({"--sizes", "4", "--ranks", "2", "--rounds", "100000", "--seconds", "100",
                    "--links", "tcp", "--algorithms", "ring", "--peers", mpi ? "mpi" : "none"}));
  for (const char* const engine : {"host", "mpi"}) {
    if (engine == std::string("mpi") && !mpi) continue;
    EXPECT_TRUE(Eventually(
        [&] {
          const std::vector<pid_t> ranks = RanksOf(bench.pid(), engine);
          std::set<int> all;
          for (const pid_t rank : ranks) {
            const std::set<int> cores = CoresOf(rank);
            if (cores.size() == 1) all.insert(*cores.begin());
          }
          return ranks.size() >= 2 && all.size() == 2;
        },
        20))
        << engine;
  }
  kill(bench.pid(), SIGINT);
  EXPECT_EQ(bench.Wait(15).exit_code, 130);
}

TEST(BenchRunTest, CtrlCEndsEveryProcess) {
  Subprocess bench(BenchCommand({"--sizes", "1MiB", "--ranks", "2", "--rounds", "100000",
                                 "--seconds", "100", "--algorithms", "ring"}));
  std::vector<pid_t> ranks;
  ASSERT_TRUE(Eventually([&] { return (ranks = RanksOf(bench.pid(), "host")).size() >= 4; }, 20));
  poll(nullptr, 0, 500);
  kill(bench.pid(), SIGINT);
  const CommandResult result = bench.Wait(15);
  EXPECT_EQ(result.exit_code, 130) << result.err;
  for (const pid_t rank : ranks) EXPECT_NE(kill(rank, 0), 0);
}

}  // namespace
}  // namespace lockstep
