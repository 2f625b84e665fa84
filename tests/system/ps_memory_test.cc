// A server's memory stays bounded when a worker stops reading (ps_server/service/exchange.h says by
// what): one that is frozen in the middle of its exchange, on real processes.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_format.h"
#include "tests/system/long_run.h"

namespace lockstep {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int kWorkers = 4;
// About 64 MiB of parameters.
constexpr int64_t kParameters = 64 * 4'000 + 4'000 + 4'000 * 4'096 + 4'096 + 4'096 * 10 + 10;
constexpr int64_t kShardBytes = kParameters * 4;

// Highest resident memory so far.
int64_t PeakBytes(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word;) {
    int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * 1'024;
  }
  return 0;
}

TEST(PsMemoryTest, AFrozenReaderCostsNoMoreThanItsReply) {
  const std::string spec = absl::StrFormat(
      "name: \"memory\" model { mlp { layers: [64, 4000, 4096, 10] } } data { digits {} }\n"
      "train { global_batch: 4 steps: 60 optimizer { sgd { momentum: 0.9 } } }\n"
      "workers: %d limits { lease_ms: 120000 sync_timeout_ms: 120000 }\n"
      "probe { every: 1000000 } variant { name: \"v\" ps { mode: ASYNC servers: 1 } }\n",
      kWorkers);
  LongRun run(spec, "v", {});
  ASSERT_TRUE(Eventually([&] { return run.Steps("worker", 0) >= 2; }, 90));
  const pid_t server = run.Pid("server", 0);
  const pid_t frozen = run.Pid("worker", 1);
  ASSERT_EQ(kill(frozen, SIGSTOP), 0);
  const int before = run.Steps("worker", 0);
  ASSERT_TRUE(Eventually([&] { return run.Steps("worker", 0) >= before + 5; }, 90))
      << "the others go on";
  const int64_t peak_bytes = PeakBytes(server);
  // A push of each worker; parameters, the previous ones, the optimizer's; a version for each reply
  // that is not sent; and the program itself with what gRPC has under way.
  const int64_t bound_bytes = (2 * kWorkers + 3) * kShardBytes + 128 * kMiB;
  absl::PrintF("server's peak: %d MiB, %.1f times the parameters; bound %d MiB\n",
               peak_bytes / kMiB, static_cast<double>(peak_bytes) / kShardBytes,
               bound_bytes / kMiB);
  EXPECT_GT(peak_bytes, 2 * kShardBytes);
  EXPECT_LE(peak_bytes, bound_bytes);
  kill(frozen, SIGCONT);
  run.command().Signal(SIGINT);
  EXPECT_FALSE(run.command().Wait(20).timed_out);
}

}  // namespace
}  // namespace lockstep
