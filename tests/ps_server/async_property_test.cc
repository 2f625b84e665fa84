// Whole asynchronous clusters on one shard in one thread, on a simulated clock. Whatever the
// delays, the repetitions, the broken streams and the replaced workers, every push is applied once,
// and the parameters are those of the order in which the shard applied. A failure prints the seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <queue>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ps_server/core/shard.h"
#include "tests/ps_server/reference.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

constexpr int64_t kCount = 6;
constexpr int64_t kChunk = 2;  // elements
const OptimizerOptions kSgd = {.learning_rate = 0.02F, .momentum = 0.5F, .divisor = 1.0F};

struct WorldOptions {
  int32_t workers = 1;
  int64_t steps = 0;
  int64_t gap_ns = 0;     // mean, from a worker's own apply to the arrival of its pull
  int64_t work_ns = 0;    // mean, from there to the arrival of its next push
  int faults_in_100 = 0;  // chance of one at each chunk
  uint64_t seed = 1;
};

// Each worker: pull, compute, push in chunks, after random delays.
class World {
 public:
  explicit World(const WorldOptions& options)
      : options_(options),
        random_(options.seed),
        shard_(*Shard::Create({.rules = {.mode = PsMode::kAsync, .optimizer = kSgd},
                               .range = WholeTensor(kCount),
                               .world_size = options.workers,
                               .staged_bytes_max = 1 << 20,
                               .sync_timeout_ms = 1'000'000})),
        workers_(static_cast<size_t>(options.workers)) {}

  void Run() {
    for (int32_t w = 0; w < options_.workers; ++w) {
      Expect(shard_.Handle(AttachEvent{w, 0}, 0));
      Send({.at_ns = Around(options_.work_ns), .worker = w, .step = 0});
    }
    const std::vector<float> start = StartValues(options_.seed, kCount);
    const std::vector<Bytes> pieces = {std::as_bytes(std::span(start))};
    Expect(shard_.Handle(InitEvent{{0, 0, 0, 0}, {0, kCount, pieces}}, 0));
    while (!messages_.empty() && !testing::Test::HasFatalFailure()) {
      const Message message = messages_.top();
      messages_.pop();
      Deliver(message);
    }
  }

  const Shard& shard() const { return shard_; }
  const std::vector<ShardUpdate>& updates() const { return updates_; }
  int64_t repeated() const { return repeated_; }
  int64_t replaced() const { return replaced_; }

 private:
  struct Message {
    int64_t at_ns = 0;
    int64_t number = 0;  // breaks ties, and keeps a stream in order
    int32_t worker = 0;
    int64_t incarnation = 0;
    int64_t step = 0;
    int64_t offset = -1;  // a chunk of the push; -1: the pull
    bool operator>(const Message& other) const {
      return std::tie(at_ns, number) > std::tie(other.at_ns, other.number);
    }
  };
  struct Worker {
    int64_t incarnation = 0;
    int64_t step = 0;     // that it pushes and pulls
    int64_t version = 0;  // newest one read
  };

  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  int64_t Around(int64_t mean_ns) { return mean_ns / 2 + (mean_ns > 0 ? Below(mean_ns) : 0); }
  void Send(Message message) {
    message.number = ++sent_;
    message.incarnation = workers_[static_cast<size_t>(message.worker)].incarnation;
    messages_.push(message);
  }

  void SendPush(int32_t worker, int64_t step, int64_t at_ns) {
    for (int64_t offset = 0; offset < kCount; offset += kChunk) {
      Send({.at_ns = at_ns, .worker = worker, .step = step, .offset = offset});
    }
  }

  void Deliver(const Message& message) {
    now_ns_ = message.at_ns;
    const UpdateId id = {message.worker, message.incarnation, message.step, 0};
    if (message.offset < 0) return OnOutput(message, shard_.Handle(PullEvent{id}, now_ns_));
    const std::vector<float> gradients =
        Gradients(options_.seed, message.worker, message.step, kCount);
    const std::vector<Bytes> pieces = {
        std::as_bytes(std::span(gradients).subspan(static_cast<size_t>(message.offset), kChunk))};
    OnOutput(message, shard_.Handle(PushEvent{id, {message.offset, kCount, pieces}}, now_ns_));
    if (Below(100) < options_.faults_in_100) Break(message);
  }

  void OnOutput(const Message& message, const ShardOutput& output) {
    const Worker& sender = workers_[static_cast<size_t>(message.worker)];
    if (message.incarnation != sender.incarnation) {
      ASSERT_EQ(output.refusals.size(), 1U);  // a frozen worker that woke up after its replacement
      EXPECT_THAT(output.refusals[0].status,
                  StatusIs(absl::StatusCode::kFailedPrecondition, "speaks as incarnation"));
      return;
    }
    Expect(output);
    if (output.update.has_value()) {
      updates_.push_back(*output.update);
      Send({.at_ns = now_ns_ + Around(options_.gap_ns),
            .worker = message.worker,
            .step = output.update->step});
    }
    for (const ShardReply& reply : output.replies) OnReply(reply);
  }

  void OnReply(const ShardReply& reply) {
    Worker& worker = workers_[static_cast<size_t>(reply.worker)];
    EXPECT_GE(reply.version, worker.version) << "a pull went back";
    EXPECT_GE(reply.version, reply.step) << "its own updates are missing";
    worker.version = reply.version;
    if (reply.step < options_.steps) {
      worker.step = std::max(worker.step, reply.step + 1);
      SendPush(reply.worker, reply.step + 1, now_ns_ + Around(options_.work_ns));
    }
  }

  // After this chunk: it comes again at some time, or the stream breaks, or the worker is replaced.
  void Break(const Message& message) {
    Worker& worker = workers_[static_cast<size_t>(message.worker)];
    if (message.incarnation != worker.incarnation) return;
    ++repeated_;
    Message again = message;
    again.at_ns += Below(3 * options_.work_ns);
    messages_.push(again);  // of this incarnation, even if it is an old one by then
    const int64_t kind = Below(3);
    if (kind == 0) return;
    if (kind == 1) {
      ++worker.incarnation;
      ++replaced_;
    }
    Expect(shard_.Handle(AttachEvent{message.worker, worker.incarnation}, now_ns_));
    // The new stream sends the worker's step again, all of it, and its pull.
    SendPush(message.worker, worker.step, now_ns_ + Below(100));
    if (shard_.last_step(message.worker) == worker.step) {
      Send({.at_ns = now_ns_ + 100, .worker = message.worker, .step = worker.step});
    }
  }

  void Expect(const ShardOutput& output) {
    ASSERT_TRUE(output.refusals.empty()) << output.refusals[0].status;
  }

  const WorldOptions options_;
  std::mt19937_64 random_;
  Shard shard_;
  std::vector<Worker> workers_;
  std::priority_queue<Message, std::vector<Message>, std::greater<>> messages_;
  std::vector<ShardUpdate> updates_;
  int64_t now_ns_ = 0;
  int64_t sent_ = 0;
  int64_t repeated_ = 0;
  int64_t replaced_ = 0;
};

class AsyncInterleavings : public testing::TestWithParam<int32_t> {};

TEST_P(AsyncInterleavings, EveryPushIsAppliedOnceInTheRecordedOrder) {
  constexpr int64_t kSteps = 12;
  const int32_t workers = GetParam();
  int64_t repeated = 0;
  int64_t replaced = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    World world({.workers = workers,
                 .steps = kSteps,
                 .gap_ns = 300,
                 .work_ns = 1'000,
                 .faults_in_100 = 10,
                 .seed = seed});
    world.Run();
    if (HasFatalFailure()) return;
    ASSERT_EQ(static_cast<int64_t>(world.updates().size()), workers * kSteps);
    EXPECT_EQ(world.shard().version(), workers * kSteps);
    std::vector<std::pair<int32_t, int64_t>> order;
    std::vector<int64_t> last(static_cast<size_t>(workers), 0);
    for (const ShardUpdate& update : world.updates()) {
      order.emplace_back(*update.worker, update.step);
      EXPECT_EQ(update.version, static_cast<int64_t>(order.size()));
      EXPECT_EQ(update.step, ++last[static_cast<size_t>(*update.worker)]);
    }
    EXPECT_TRUE(SameBits(*world.shard().parameters(), ReferenceReplay(seed, order, kCount, kSgd)));
    repeated += world.repeated();
    replaced += world.replaced();
  }
  EXPECT_GT(repeated, 0);
  EXPECT_GT(replaced, 0);
}

INSTANTIATE_TEST_SUITE_P(Workers, AsyncInterleavings, testing::Values(1, 2, 3, 5, 8),
                         testing::PrintToStringParamName());

struct Delays {
  int32_t workers;
  int64_t gap_ns;
  int64_t work_ns;
};
void PrintTo(const Delays& row, std::ostream* out) { *out << row.workers << " " << row.gap_ns; }
class StalenessLaw : public testing::TestWithParam<Delays> {};

TEST_P(StalenessLaw, MeanIsOthersTimesTheShareOutsideTheGap) {
  constexpr int64_t kSteps = 4'000;
  constexpr int64_t kWarmUp = 10;
  const Delays& row = GetParam();
  World world({.workers = row.workers,
               .steps = kSteps,
               .gap_ns = row.gap_ns,
               .work_ns = row.work_ns,
               .seed = 7});
  world.Run();
  ASSERT_EQ(static_cast<int64_t>(world.updates().size()), row.workers * kSteps);
  double gap_ns = 0;
  double cycle_ns = 0;
  double staleness = 0;
  double counted = 0;
  for (const ShardUpdate& update : world.updates()) {
    if (update.step <= kWarmUp) continue;
    ASSERT_TRUE(update.staleness->cycle_ns.has_value());
    gap_ns += static_cast<double>(*update.staleness->gap_ns);
    cycle_ns += static_cast<double>(*update.staleness->cycle_ns);
    staleness += static_cast<double>(update.staleness->update);
    counted += 1;
  }
  const double share = gap_ns / cycle_ns;
  EXPECT_NEAR(
      share, static_cast<double>(row.gap_ns) / static_cast<double>(row.gap_ns + row.work_ns), 0.01);
  const double expected = (row.workers - 1) * (1 - share);
  EXPECT_NEAR(staleness / counted, expected, 0.02 * expected);
}

INSTANTIATE_TEST_SUITE_P(Delays, StalenessLaw,
                         testing::Values(Delays{1, 300, 700}, Delays{2, 0, 1'000},
                                         Delays{2, 400, 600}, Delays{3, 100, 900},
                                         Delays{4, 340, 660}, Delays{4, 800, 200},
                                         Delays{8, 0, 1'000}, Delays{8, 177, 823}),
                         [](const auto& row) {
                           return absl::StrCat("n", row.param.workers, "gap", row.param.gap_ns);
                         });

}  // namespace
}  // namespace lockstep
