// Shared memory between real processes: one is killed in the middle of a collective, and /dev/shm
// is taken away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/allreduce/group.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

constexpr int64_t kSyncTimeoutMs = 5'000;

// A child that runs `body` and tells what it returned; `body` may tell more before.
class Child {
 public:
  using Tell = std::function<void(const std::string&)>;
  using Body = std::function<std::string(const Tell&)>;

  explicit Child(const Body& body) {
    std::array<int, 2> ends{};
    CHECK_EQ(pipe(ends.data()), 0);
    from_ = UniqueFd(ends[0]);
    UniqueFd to(ends[1]);
    pid_ = fork();
    CHECK_GE(pid_, 0);
    if (pid_ != 0) return;
    const Tell tell = [&](const std::string& line) {
      const std::string text = line + "\n";
      CHECK_EQ(write(to.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    };
    tell(body(tell));
    _exit(0);
  }

  // The next line; empty when the child is gone or silent for `timeout_ms`.
  std::string Line(int64_t timeout_ms) {
    const int64_t deadline_ns = clock_.NowNs() + timeout_ms * kNsPerMs;
    while (read_.find('\n') == std::string::npos) {
      const int64_t left_ms = (deadline_ns - clock_.NowNs()) / kNsPerMs;
      pollfd wait{from_.get(), POLLIN, 0};
      if (left_ms <= 0 || poll(&wait, 1, static_cast<int>(left_ms)) <= 0) return "";
      std::array<char, 4096> buffer{};
      const ssize_t bytes = read(from_.get(), buffer.data(), buffer.size());
      if (bytes <= 0) return "";
      read_.append(buffer.data(), static_cast<size_t>(bytes));
    }
    const std::string line = read_.substr(0, read_.find('\n'));
    read_.erase(0, line.size() + 1);
    return line;
  }
  void Kill() const { kill(pid_, SIGKILL); }
  void Reap() const {
    int status = 0;
    waitpid(pid_, &status, 0);
  }

 private:
  MonotonicClock clock_;
  UniqueFd from_;
  std::string read_;
  pid_t pid_ = -1;
};

struct KillCase {
  std::string name;
  Algorithm algorithm;
  int64_t count;
  bool allocated;
};

class KillTest : public testing::TestWithParam<KillCase> {
 protected:
  // All-reduces until that fails; says so once it is in full swing.
  std::string Work(int rank, Listener listener, const std::vector<Endpoint>& endpoints,
                   const Child::Tell& tell) const {
    MonotonicClock clock;
    const Abort abort;
    const Limits limits = TestLimits(kSyncTimeoutMs);
    TcpGroup group;
    group.rank = rank;
    group.endpoints = endpoints;
    group.epoch = 1;
    absl::StatusOr<std::unique_ptr<Link>> link =
        ConnectShmMesh(std::move(listener), group, limits, clock, abort);
    if (!link.ok()) return link.status().ToString();
    CommunicatorOptions options;
    options.algorithm = GetParam().algorithm;
    options.limits = limits;
    const auto communicator = MakeHostCommunicator(*std::move(link), clock, options);
    const int64_t bytes = GetParam().count * SizeOf(Dtype::kF32);
    const absl::StatusOr<std::span<std::byte>> memory = communicator->Allocate(bytes);
    if (!memory.ok()) return memory.status().ToString();
    std::vector<std::byte> own(static_cast<size_t>(bytes));
    std::byte* const data = GetParam().allocated ? memory->data() : own.data();
    constexpr int kInFullSwing = 20;
    for (int call = 0;; ++call) {
      const absl::Status status =
          communicator->AllReduce(data, GetParam().count, Dtype::kF32, ReduceOp::kSum);
      if (!status.ok()) {
        const std::string text = status.ToString();
        return text.substr(0, text.find('\n'));
      }
      if (call == kInFullSwing) tell("at work");
    }
  }
};

// CASES R03: every survivor names it, long before the timeout.
TEST_P(KillTest, EverySurvivorNamesTheKilledRank) {
  constexpr int kRanks = 4;
  for (const int victim : {0, 2}) {
    auto [listeners, endpoints] = ListenOnLoopback(kRanks);
    std::vector<std::unique_ptr<Child>> children;
    for (int rank = 0; rank < kRanks; ++rank) {
      children.push_back(std::make_unique<Child>(
          [&, rank, &listeners = listeners, &endpoints = endpoints](const Child::Tell& tell) {
            return Work(rank, std::move(listeners[static_cast<size_t>(rank)]), endpoints, tell);
          }));
    }
    listeners.clear();
    for (const auto& child : children) ASSERT_EQ(child->Line(20'000), "at work");
    children[static_cast<size_t>(victim)]->Kill();
    for (int rank = 0; rank < kRanks; ++rank) {
      Child& child = *children[static_cast<size_t>(rank)];
      if (rank != victim) {
        EXPECT_THAT(child.Line(kSyncTimeoutMs), HasSubstr(absl::StrCat("lost: rank ", victim, ".")))
            << GetParam().name << ", rank " << rank;
      }
      child.Kill();
      child.Reap();
    }
  }
}

std::vector<KillCase> KillCases() {
  return {{"RingOverRings", Algorithm::kRing, 300'000, false},
          {"TreeOverRings", Algorithm::kTree, 1'000, false},
          {"OneShot", Algorithm::kDirect, 100, false},
          {"InPlace", Algorithm::kDirect, 300'000, true},
          {"InBlocks", Algorithm::kDirect, 300'000, false}};
}
std::string KillName(const testing::TestParamInfo<KillCase>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(All, KillTest, testing::ValuesIn(KillCases()), KillName);

// A name space of its own for mounts, as root or as a plain user; false: not allowed here.
bool TakeOverMounts() {
  if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

// CASES R56: whatever /dev/shm is like, the ranks share memory beside it.
TEST(DevShmTest, NoMatterHowSmallFullOrReadOnly) {
  struct Case {
    std::string name;
    unsigned long flags;
    std::string options;
    bool filled;
  };
  for (const Case& c : {Case{"1 MB", 0, "size=1m", false}, Case{"full", 0, "size=64k", true},
                        Case{"read-only", MS_RDONLY, "size=64m", false}}) {
    Child child([&](const Child::Tell& /*tell*/) -> std::string {
      if (!TakeOverMounts() ||
          mount("tmpfs", "/dev/shm", "tmpfs", c.flags, c.options.c_str()) != 0) {
        return "skipped";
      }
      if (c.filled) {
        std::ofstream file("/dev/shm/fill");
        for (int i = 0; i < 100'000 && file.good(); ++i) file << "0123456789";
        file.close();
      }
      constexpr int64_t kBytes = int64_t{32} << 20;
      Limits limits = TestLimits();
      MonotonicClock clock;
      const Abort abort;
      auto links = ConnectShmLinks(2, 1, limits, clock, abort);
      std::vector<absl::Status> statuses(2);
      OnEachRank(2, [&](int rank) {
        const auto r = static_cast<size_t>(rank);
        CommunicatorOptions options;
        options.algorithm = Algorithm::kDirect;
        const auto communicator = MakeHostCommunicator(std::move(links[r]), clock, options);
        const absl::StatusOr<std::span<std::byte>> memory = communicator->Allocate(kBytes);
        statuses[r] = memory.status();
        if (!memory.ok()) return;
        std::fill(memory->begin(), memory->end(), std::byte{1});
        statuses[r] = communicator->AllReduce(memory->data(), kBytes, Dtype::kU8, ReduceOp::kSum);
        if ((*memory)[kBytes - 1] != std::byte{2}) statuses[r] = absl::DataLossError("wrong sum");
      });
      if (!statuses[0].ok() || !statuses[1].ok()) {
        return absl::StrCat(statuses[0].ToString(), " ", statuses[1].ToString());
      }
      return "done";
    });
    const std::string result = child.Line(30'000);
    child.Kill();
    child.Reap();
    if (result == "skipped") GTEST_SKIP() << "no name space for mounts: " << c.name;
    EXPECT_EQ(result, "done") << "/dev/shm: " << c.name;
  }
}

}  // namespace
}  // namespace lockstep
