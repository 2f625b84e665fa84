// Links in shared memory: what they ask of the host, who may join, what is left behind, and how a
// rank waits.
#include "allreduce/transport/shm.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/transport/shared_window.h"
#include "allreduce/transport/shm_bell.h"
#include "allreduce/transport/shm_layout.h"
#include "allreduce/transport/shm_memory.h"
#include "allreduce/transport/shm_ring.h"
#include "allreduce/transport/tcp_link.h"
#include "base/status.h"
#include "tests/allreduce/group.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kExpiryMs = 400;

TEST(ShmRingTest, BytesComeOutAsTheyWentInWhateverThePieces) {
  constexpr size_t kRing = 64;
  ShmRingCounters counters;
  std::array<std::byte, kRing> memory{};
  ShmRingWriter writer(&counters, memory);
  ShmRingReader reader(&counters, memory);
  std::vector<std::byte> sent(10'000);
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7 + i / 256);
  std::vector<std::byte> got(sent.size());
  size_t in = 0;
  size_t out = 0;
  for (size_t turn = 1; out < sent.size(); ++turn) {
    const auto rest = std::span(sent).subspan(in);
    in += writer.Put(rest.first(std::min(rest.size(), turn * 13 % 71)));
    EXPECT_EQ(reader.Available(), 0U) << "not published yet";
    writer.Publish();
    ASSERT_LE(reader.Available(), kRing);
    while (reader.Available() > 0) {
      const auto place = std::span(got).subspan(out);
      out += reader.Take(place.first(std::min(place.size(), turn * 29 % 37 + 1)));
    }
    EXPECT_LT(writer.Space(), kRing + 1);
    reader.Release();
    EXPECT_EQ(writer.Space(), kRing);
  }
  EXPECT_EQ(got, sent);
}

TEST(ShmRingTest, AFullRingTakesNothingAndNonsenseIsNoticed) {
  ShmRingCounters counters;
  std::array<std::byte, 16> memory{};
  ShmRingWriter writer(&counters, memory);
  ShmRingReader reader(&counters, memory);
  const std::array<std::byte, 20> bytes{};
  EXPECT_EQ(writer.Put(bytes), 16U);
  EXPECT_EQ(writer.Put(bytes), 0U);
  EXPECT_TRUE(writer.Sane());
  counters.read.store(17);  // more than was ever written
  EXPECT_FALSE(writer.Sane());
  counters.written.store(17);
  EXPECT_FALSE(reader.Sane());
}

TEST(ShmMemoryTest, TooMuchIsRefusedWithNeededAndAvailableBytes) {
  const int64_t available = AvailableMemoryBytes();
  ASSERT_GT(available, 0);
  EXPECT_THAT(CheckMemory(1, 4), IsOk());
  const int64_t tebibytes = int64_t{1} << 50;
  EXPECT_THAT(CheckMemory(tebibytes, 4),
              StatusIs(StatusCode::kResourceExhausted,
                       absl::StrCat("4 ranks need ", tebibytes, " bytes each, available are ")));
  const absl::StatusOr<UniqueFd> file = MakeSharedFile();
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT(Grow(file->get(), tebibytes).status(),
              StatusIs(StatusCode::kResourceExhausted,
                       absl::StrCat(tebibytes, " bytes are needed, available are ")));
}

// A file size limit would end the process by SIGXFSZ.
TEST(ShmMemoryTest, AFileSizeLimitIsAnErrorNotASignal) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 1 << 20;
  const absl::StatusOr<UniqueFd> file = MakeSharedFile();
  ASSERT_THAT(file, IsOk());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  EXPECT_THAT(Grow(file->get(), 1 << 19), IsOk());
  const absl::Status second = Grow(file->get(), (1 << 19) + 4096).status();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(second, StatusIs(StatusCode::kResourceExhausted, "available are 1048576"));
}

TEST(ShmMemoryTest, OnlyMemoryThatCannotShrinkIsTakenFromAPeer) {
  const absl::StatusOr<UniqueFd> good = MakeSharedFile();
  ASSERT_THAT(good, IsOk());
  const absl::StatusOr<int64_t> offset = Grow(good->get(), 8192);
  ASSERT_THAT(offset, IsOk());
  EXPECT_EQ(*offset, 0);
  EXPECT_THAT(CheckSharedFile(good->get(), 8192), IsOk());
  EXPECT_THAT(CheckSharedFile(good->get(), 8193),
              StatusIs(StatusCode::kInvalidArgument, "has 8192 bytes, expected at least 8193"));
  EXPECT_NE(ftruncate(good->get(), 4096), 0);
  const UniqueFd unsealed(memfd_create("unsealed", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(unsealed.get(), 8192), 0);
  EXPECT_THAT(CheckSharedFile(unsealed.get(), 8192),
              StatusIs(StatusCode::kInvalidArgument, "could be cut short"));
}

TEST(ShmLayoutTest, RingsDoNotOverlapAndManyOfThemStayBounded) {
  for (const int n : {1, 2, 3, 18, 64}) {
    for (const int channels : {1, 8}) {
      const ShmLayout layout{n, channels};
      std::vector<int64_t> starts;
      for (int sender = 0; sender < n; ++sender) {
        for (int channel = 0; channel < channels && sender != n / 2; ++channel) {
          starts.push_back(layout.RingOffset(n / 2, sender, channel));
        }
      }
      std::sort(starts.begin(), starts.end());
      const auto each = static_cast<int64_t>(sizeof(ShmRingCounters)) + layout.RingBytes();
      int64_t free_from = ShmLayout::kBellBytes;
      for (const int64_t start : starts) {
        EXPECT_EQ(start % 64, 0);
        EXPECT_GE(start, free_from);
        free_from = start + each;
      }
      EXPECT_GE(layout.WindowOffset(), free_from);
      EXPECT_LE(layout.WindowOffset(), int64_t{9} << 20) << n << " ranks, " << channels;
    }
  }
}

// Thousands of hand-overs: a lost wake-up would cost a whole slice each, a missed one the test.
// A rank that spins hears nobody, so it must not spin for long, however long a yield takes.
TEST(SpinWaitTest, EndsAfterItsTurnsOrWhenOthersKeepTheCore) {
  ManualClock clock;
  SpinWait spin(true, clock);
  int turns = 0;
  while (spin.Turn()) ++turns;
  EXPECT_GT(turns, 50);
  EXPECT_LT(turns, 1'000);
  spin.Reset();
  EXPECT_TRUE(spin.Turn());
  clock.AdvanceMs(10);
  EXPECT_FALSE(spin.Turn());
  EXPECT_FALSE(spin.Turn());
  spin.Reset();
  EXPECT_TRUE(spin.Turn());
}

TEST(ShmBellTest, NobodySleepsThroughARing) {
  constexpr int kRounds = 3000;
  std::array<ShmBell, 2> bells;
  std::atomic<int> turn{0};
  std::array<int, 2> timeouts{};
  OnEachRank(2, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    const auto mine = [&] { return turn.load() % 2 == rank; };
    MonotonicClock clock;
    for (int round = 0; round < kRounds; ++round) {
      while (!mine()) {
        const int64_t start_ns = clock.NowNs();
        bells[r].Sleep(mine, 5 * kNsPerSecond);
        if (clock.NowNs() - start_ns >= 5 * kNsPerSecond) ++timeouts[r];
      }
      turn.fetch_add(1);
      bells[1 - r].Ring();
    }
  });
  EXPECT_EQ(turn.load(), 2 * kRounds);
  EXPECT_THAT(timeouts, ElementsAre(0, 0));
}

class ShmMeshTest : public testing::Test {
 protected:
  void ListenFor(int n) { std::tie(listeners_, endpoints_) = ListenOnLoopback(n); }
  TcpGroup Group(int rank) const {
    TcpGroup group;
    group.rank = rank;
    group.endpoints = endpoints_;
    group.epoch = 7;
    group.token = "secret";
    group.channels = 2;
    return group;
  }
  absl::StatusOr<std::unique_ptr<Link>> Connect(const TcpGroup& group) {
    return ConnectShmMesh(std::move(listeners_[static_cast<size_t>(group.rank)]), group, limits_,
                          clock_, abort_);
  }

  Limits limits_;
  MonotonicClock clock_;
  Abort abort_;
  std::vector<Listener> listeners_;
  std::vector<Endpoint> endpoints_;
};

// Open descriptors and mappings of our shared memory.
std::pair<int, int> Traces() {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the directory's own descriptor
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.find("memfd:lockstep") != std::string::npos) ++files;
  }
  int mappings = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:lockstep") != std::string::npos) ++mappings;
  }
  return {files, mappings};
}

TEST_F(ShmMeshTest, LeavesNothingBehind) {
  const auto before = Traces();
  {
    const auto links = ConnectShmLinks(3, 2, limits_, clock_, abort_);
    EXPECT_EQ(links[0]->name(), "shm");
    EXPECT_EQ(links[0]->channels(), 2);
    EXPECT_NE(Traces(), before);
    std::vector<absl::Status> statuses(3);
    OnEachRank(3, [&](int rank) {
      const auto r = static_cast<size_t>(rank);
      ASSERT_THAT(links[r]->window()->ReserveArea(100'000), IsOk());
    });
  }
  EXPECT_EQ(Traces(), before);
}

TEST_F(ShmMeshTest, ManyMoreRanksThanAQueueOfDatagramsHolds) {
  EXPECT_EQ(ConnectShmLinks(18, 1, limits_, clock_, abort_).size(), 18U);
}

TEST_F(ShmMeshTest, NamesEveryRankThatDidNotConnect) {
  ListenFor(3);
  limits_.connect_timeout_ms = kExpiryMs;
  std::vector<absl::Status> statuses(3);
  OnEachRank(3, [&](int rank) {
    if (rank != 1) statuses[static_cast<size_t>(rank)] = Connect(Group(rank)).status();
  });
  EXPECT_THAT(statuses[0], StatusIs(StatusCode::kDeadlineExceeded, "with rank 1 (127"));
  EXPECT_THAT(BlamedBy(statuses[2]), ElementsAre("rank 1"));
}

TEST_F(ShmMeshTest, RanksOfDifferentShapeAreBothNamed) {
  ListenFor(2);
  std::vector<absl::Status> statuses(2);
  OnEachRank(2, [&](int rank) {
    TcpGroup group = Group(rank);
    if (rank == 1) group.channels = 3;
    statuses[static_cast<size_t>(rank)] = Connect(group).status();
  });
  EXPECT_THAT(statuses[0], StatusIs(StatusCode::kFailedPrecondition,
                                    "rank 0 and rank 1 cannot share memory: host "));
  EXPECT_THAT(statuses[0], StatusIs(StatusCode::kFailedPrecondition, "2 channels"));
  EXPECT_THAT(statuses[1], StatusIs(StatusCode::kFailedPrecondition, "3 channels"));
  EXPECT_THAT(BlamedBy(statuses[0]), ElementsAre("rank 1"));
}

// A rank that cannot map or allocate says why; the others name it.
TEST_F(ShmMeshTest, ARankThatGivesUpInSetUpIsNamedByTheOthers) {
  ListenFor(3);
  std::vector<absl::Status> statuses(3);
  OnEachRank(3, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    // Rank 1 speaks the control mesh alone, then goes.
    if (rank == 1) {
      statuses[r] =
          ConnectTcpSockets(std::move(listeners_[r]), Group(rank), 0, limits_, clock_, abort_)
              .status();
    } else {
      statuses[r] = Connect(Group(rank)).status();
    }
  });
  EXPECT_THAT(statuses[1], IsOk());
  for (const size_t rank : {0U, 2U}) {
    EXPECT_THAT(statuses[rank], StatusIs(StatusCode::kUnavailable, "lost rank 1 while"));
    EXPECT_THAT(BlamedBy(statuses[rank]), ElementsAre("rank 1"));
  }
}

TEST_F(ShmMeshTest, AnAbortEndsTheWait) {
  ListenFor(2);
  std::thread aborts([&] { abort_.Request(absl::CancelledError("stopped")); });
  EXPECT_THAT(Connect(Group(0)).status(), StatusIs(StatusCode::kCancelled, "stopped"));
  aborts.join();
}

int64_t ThreadCpuNs() {
  rusage usage{};
  CHECK_EQ(getrusage(RUSAGE_THREAD, &usage), 0);
  const auto ns = [](const timeval& time) {
    return time.tv_sec * kNsPerSecond + time.tv_usec * (kNsPerMs / 1000);
  };
  return ns(usage.ru_utime) + ns(usage.ru_stime);
}

// CASES R51: a blocked rank uses less than 5 % of a core.
TEST_F(ShmMeshTest, ABlockedRankUsesNearlyNoProcessorTime) {
  const auto links = ConnectShmLinks(2, 1, limits_, clock_, abort_);
  std::array<std::byte, 1> byte{};
  RecvRequest recv;
  recv.peer = 1;
  recv.expected.epoch = 1;
  recv.expected.payload_bytes = 1;
  recv.payload = byte;
  links[0]->PostRecv(&recv);
  const int64_t wait_ns = kExpiryMs * kNsPerMs;
  int64_t cpu_ns = ThreadCpuNs();
  EXPECT_THAT(links[0]->Progress(clock_.NowNs() + wait_ns),
              StatusIs(StatusCode::kDeadlineExceeded, "rank 0 waited for rank 1 to send"));
  EXPECT_LT(ThreadCpuNs() - cpu_ns, wait_ns / 20);
  links[0]->Cancel();
  cpu_ns = ThreadCpuNs();
  EXPECT_THAT(
      links[1]->window()->Await([](int /*peer*/) { return false; }, clock_.NowNs() + wait_ns),
      StatusIs(StatusCode::kDeadlineExceeded, "rank 1 waited for rank 0 to send"));
  EXPECT_LT(ThreadCpuNs() - cpu_ns, wait_ns / 20);
}

// A report does not wait for a sleeper's slice to end, and an abort ends it soon.
TEST_F(ShmMeshTest, ASleepingRankHearsAReportAndAnAbort) {
  auto links = ConnectShmLinks(3, 1, limits_, clock_, abort_);
  std::vector<absl::Status> statuses(3);
  OnEachRank(3, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    if (rank == 2) {
      const std::string report = "it failed";
      links[r]->SendReport(std::as_bytes(std::span(report)));
      return;
    }
    statuses[r] = links[r]->window()->Await([](int /*peer*/) { return false; },
                                            clock_.NowNs() + 10 * kNsPerSecond);
  });
  EXPECT_THAT(statuses[0], StatusIs(StatusCode::kAborted, "rank 2 reports a failure"));
  EXPECT_THAT(statuses[1], StatusIs(StatusCode::kAborted, "rank 2 reports a failure"));
  std::thread aborts([&] { abort_.Request(absl::CancelledError("stopped")); });
  EXPECT_THAT(links[2]->window()->Await([](int /*peer*/) { return false; },
                                        clock_.NowNs() + 10 * kNsPerSecond),
              StatusIs(StatusCode::kCancelled, "stopped"));
  aborts.join();
}

}  // namespace
}  // namespace lockstep
