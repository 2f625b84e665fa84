// Random interleavings of whole clusters in one thread: whatever the order across workers, the cuts
// of chunks and bytes, the repetitions, the broken streams and the late replies, every reply holds
// the bits of the straight-line reference. A failure prints the seed; run it alone with the filter
// it names.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ps_server/core/partition.h"
#include "ps_server/core/shard.h"
#include "tests/ps_server/reference.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

constexpr int64_t kSteps = 4;

struct Message {
  int64_t step = 0;
  int64_t begin = 0;  // elements of the shard
  int64_t end = 0;    // begin == end: a pull of version `step`
};

class Cluster {
 public:
  Cluster(int workers, int32_t shards, PsOrder order, uint64_t seed)
      : random_(seed), sgd_{0.05F, 0.9F, static_cast<float>(workers)} {
    // Cut within a tensor and between tensors; some are empty.
    const std::vector<int64_t> tensors = {1'024 + Below(2'000), Below(2) * Below(50),
                                          1'024 + Below(1'500), Below(9)};
    count_ = *CountElements(tensors);
    ranges_ = *Partition(tensors, shards);
    reference_ = ReferenceRun(seed, workers, kSteps, count_, sgd_,
                              order == PsOrder::kExact ? tensors : std::vector<int64_t>());
    for (int32_t k = 0; k < shards; ++k) {
      const ShardOptions options = {.rules = {.order = order, .optimizer = sgd_},
                                    .shard = k,
                                    .range = ranges_[static_cast<size_t>(k)],
                                    .world_size = workers,
                                    .staged_bytes_max = 1 << 30,
                                    .sync_timeout_ms = 1'000};
      shards_.push_back(*Shard::Create(options));
    }
    for (int w = 0; w < workers; ++w) {
      for (int64_t step = 1; step <= kSteps; ++step) {
        gradients_.push_back(Gradients(seed, w, step, count_));
      }
    }
    started_.assign(static_cast<size_t>(workers), 0);
    links_.resize(static_cast<size_t>(workers) * shards_.size());
  }

  void Run() {
    for (size_t i = 0; i < links_.size(); ++i) {
      Expect(ShardOfLink(i), shards_[ShardOfLink(i)].Handle(AttachEvent{WorkerOfLink(i), 1}, 0));
      if (WorkerOfLink(i) == 0) links_[i].outbox.push_back({-1, 0, ranges_[ShardOfLink(i)].count});
      links_[i].outbox.push_back({0, 0, 0});
    }
    int64_t moves = 0;
    while (std::any_of(links_.begin(), links_.end(),
                       [](const Link& l) { return l.version < kSteps; })) {
      ASSERT_LT(++moves, 2'000'000) << "stuck";
      Move(static_cast<size_t>(Below(static_cast<int64_t>(links_.size()))));
      if (testing::Test::HasFatalFailure()) return;
    }
    for (const Shard& shard : shards_) EXPECT_EQ(shard.version(), kSteps);
  }
  int64_t repeated() const { return repeated_; }

 private:
  struct Link {
    std::deque<Message> outbox;
    std::vector<Message> pushed;  // since the last attach
    std::vector<Message> step;    // all messages of the current step, to be sent again
    std::deque<ShardReply> inbox;
    int64_t version = -1;  // received
  };

  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  size_t ShardOfLink(size_t i) const { return i % shards_.size(); }
  int32_t WorkerOfLink(size_t i) const { return static_cast<int32_t>(i / shards_.size()); }

  void Move(size_t i) {
    Link& link = links_[i];
    if (!link.inbox.empty() && Below(4) == 0) return Receive(i);
    if (!link.pushed.empty() && Below(8) == 0) {
      ++repeated_;
      return Deliver(
          i, link.pushed[static_cast<size_t>(Below(static_cast<int64_t>(link.pushed.size())))]);
    }
    if (!link.step.empty() && Below(40) == 0) return Reattach(i);
    if (link.outbox.empty()) return;
    const Message message = link.outbox.front();
    link.outbox.pop_front();
    if (message.step > 0 && message.begin < message.end) link.pushed.push_back(message);
    Deliver(i, message);
  }

  // The stream broke; a new one sends the whole step again.
  void Reattach(size_t i) {
    Link& link = links_[i];
    Expect(ShardOfLink(i), shards_[ShardOfLink(i)].Handle(AttachEvent{WorkerOfLink(i), 1}, 0));
    link.outbox.assign(link.step.begin(), link.step.end());
    link.pushed.clear();
    link.inbox.clear();
  }

  void Receive(size_t i) {
    const ShardReply reply = links_[i].inbox.front();
    links_[i].inbox.pop_front();
    const ShardRange& range = ranges_[ShardOfLink(i)];
    const float* expected = reference_[static_cast<size_t>(reply.version)].data() + range.offset;
    ASSERT_EQ(static_cast<int64_t>(reply.parameters->size()), range.count);
    ASSERT_EQ(std::memcmp(reply.parameters->data(), expected, static_cast<size_t>(range.count) * 4),
              0)
        << "worker " << WorkerOfLink(i) << ", shard " << ShardOfLink(i) << ", version "
        << reply.version;
    ASSERT_GE(reply.version, links_[i].version) << "a pull went back";
    links_[i].version = reply.version;
    StartStep(WorkerOfLink(i));
  }

  // Once every shard of this worker is at version t, it pushes and pulls step t + 1.
  void StartStep(int32_t worker) {
    const size_t first = static_cast<size_t>(worker) * shards_.size();
    const int64_t version = links_[first].version;
    for (size_t i = first; i < first + shards_.size(); ++i) {
      if (links_[i].version != version || !links_[i].inbox.empty()) return;
    }
    if (version >= kSteps || version < started_[static_cast<size_t>(worker)]) return;
    started_[static_cast<size_t>(worker)] = version + 1;
    for (size_t i = first; i < first + shards_.size(); ++i) {
      Link& link = links_[i];
      link.step.clear();
      const int64_t count = ranges_[ShardOfLink(i)].count;
      for (int64_t begin = 0; begin < count;) {
        const int64_t end = std::min(count, begin + 1 + Below(700));
        link.step.push_back({version + 1, begin, end});
        begin = end;
      }
      std::shuffle(link.step.begin(), link.step.end(), random_);
      link.step.push_back({version + 1, 0, 0});
      link.outbox.insert(link.outbox.end(), link.step.begin(), link.step.end());
    }
  }

  void Deliver(size_t i, const Message& message) {
    const size_t k = ShardOfLink(i);
    const ShardRange& range = ranges_[k];
    const UpdateId id = {WorkerOfLink(i), 1, message.step, static_cast<int32_t>(k)};
    if (message.begin == message.end) {
      return Expect(k, shards_[k].Handle(PullEvent{id}, 0));
    }
    const bool init = message.step < 0;
    const std::vector<float>& values =
        init ? reference_[0]
             : gradients_[static_cast<size_t>(id.worker * kSteps + message.step - 1)];
    const Bytes all =
        std::as_bytes(std::span(values).subspan(static_cast<size_t>(range.offset + message.begin),
                                                static_cast<size_t>(message.end - message.begin)));
    // Slices of gRPC are cut at any byte.
    std::vector<Bytes> pieces;
    for (size_t at = 0; at < all.size();) {
      const size_t size = std::min(all.size() - at, static_cast<size_t>(Below(900)));
      pieces.push_back(all.subspan(at, size));
      at += size;
    }
    const ShardChunk chunk = {message.begin, range.count, pieces};
    if (init) return Expect(k, shards_[k].Handle(InitEvent{id, chunk}, 0));
    Expect(k, shards_[k].Handle(PushEvent{id, chunk}, 0));
  }

  void Expect(size_t shard, const ShardOutput& output) {
    ASSERT_TRUE(output.refusals.empty()) << output.refusals[0].status;
    for (const ShardReply& reply : output.replies) {
      links_[static_cast<size_t>(reply.worker) * shards_.size() + shard].inbox.push_back(reply);
    }
  }

  std::mt19937_64 random_;
  const OptimizerOptions sgd_;
  int64_t count_ = 0;
  std::vector<ShardRange> ranges_;
  std::vector<std::vector<float>> reference_;
  std::vector<std::vector<float>> gradients_;  // [worker * kSteps + step - 1]
  std::vector<int64_t> started_;               // [worker]: step
  std::vector<Shard> shards_;
  std::vector<Link> links_;  // [worker * shards + shard]
  int64_t repeated_ = 0;
};

class Interleavings : public testing::TestWithParam<std::tuple<int, int32_t, PsOrder>> {};

TEST_P(Interleavings, EveryReplyEqualsTheReference) {
  const auto [workers, shards, order] = GetParam();
  int64_t repeated = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Cluster cluster(workers, shards, order, seed);
    cluster.Run();
    if (HasFatalFailure()) return;
    repeated += cluster.repeated();
  }
  EXPECT_GT(repeated, 0);
}

std::string NameOf(const testing::TestParamInfo<std::tuple<int, int32_t, PsOrder>>& info) {
  return absl::StrCat("n", std::get<0>(info.param), "s", std::get<1>(info.param),
                      std::get<2>(info.param) == PsOrder::kExact ? "exact" : "rank");
}
INSTANTIATE_TEST_SUITE_P(Clusters, Interleavings,
                         testing::Combine(testing::Range(1, 6), testing::Range(1, 4),
                                          testing::Values(PsOrder::kRank, PsOrder::kExact)),
                         NameOf);

}  // namespace
}  // namespace lockstep
