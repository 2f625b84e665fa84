// Real servers in a chain over loopback: one dies, the others go on with a later group on the same
// ports, and the parameters are those of the undisturbed run.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/abort.h"
#include "base/clock.h"
#include "ps_server/service/ps_service.h"
#include "tests/ps_server/raw_stream.h"
#include "tests/ps_server/reference.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

constexpr int64_t kCount = 5'000;
constexpr uint64_t kSeed = 4;
constexpr OptimizerOptions kSgd = {0.1F, 0.9F, 1.0F};

PsLayout Layout() {
  PsLayout layout;
  layout.rules.optimizer = kSgd;
  layout.tensor_counts = {kCount / 2, kCount / 2};
  layout.shards = 2;
  return layout;
}

// One worker that speaks to the head of each shard by hand, a chunk a shard.
class Worker {
 public:
  Worker(const std::vector<std::unique_ptr<PsService>>& services, std::vector<int32_t> heads,
         int64_t epoch)
      : heads_(std::move(heads)), epoch_(epoch), ranges_(*Partition(Layout().tensor_counts, 2)) {
    streams_.resize(services.size());
    for (int32_t shard = 0; shard < 2; ++shard) {
      std::unique_ptr<RawStream>& stream = StreamOf(shard);
      if (stream == nullptr) {
        stream = std::make_unique<RawStream>(services[Head(shard)]->endpoint());
      }
      PsFrame hello = Header(HELLO, shard, 0);
      hello.set_layout(FingerprintOf(Layout()));
      for (const int64_t count : Layout().tensor_counts) hello.add_tensor_counts(count);
      EXPECT_TRUE(stream->Write(hello.SerializeAsString()));
      PsFrame welcome;
      EXPECT_TRUE(welcome.ParseFromString(stream->Read()));
      EXPECT_EQ(welcome.kind(), WELCOME) << welcome.reason();
      steps_.push_back(welcome.step());
    }
  }
  const std::vector<int64_t>& steps() const { return steps_; }

  void Send(PsKind kind, int64_t step, const std::vector<float>& values) {
    for (int32_t shard = 0; shard < 2; ++shard) {
      const ShardRange& range = ranges_[static_cast<size_t>(shard)];
      PsFrame frame = Header(kind, shard, step);
      frame.set_total(range.count);
      frame.set_payload(values.data() + range.offset, static_cast<size_t>(range.count) * 4);
      EXPECT_TRUE(StreamOf(shard)->Write(frame.SerializeAsString()));
    }
  }
  std::vector<float> Pull(int64_t step) {
    std::vector<float> values(kCount);
    for (int32_t shard = 0; shard < 2; ++shard) {
      const ShardRange& range = ranges_[static_cast<size_t>(shard)];
      EXPECT_TRUE(StreamOf(shard)->Write(Header(PULL, shard, step).SerializeAsString()));
      PsFrame reply;
      EXPECT_TRUE(reply.ParseFromString(StreamOf(shard)->Read()));
      EXPECT_EQ(reply.kind(), PARAMETERS) << reply.reason();
      if (reply.payload().size() != static_cast<size_t>(range.count) * 4) break;
      std::memcpy(values.data() + range.offset, reply.payload().data(), reply.payload().size());
    }
    return values;
  }

 private:
  size_t Head(int32_t shard) const {
    return static_cast<size_t>(heads_[static_cast<size_t>(shard)]);
  }
  std::unique_ptr<RawStream>& StreamOf(int32_t shard) { return streams_[Head(shard)]; }
  PsFrame Header(PsKind kind, int32_t shard, int64_t step) const {
    PsFrame header;
    header.set_kind(kind);
    header.set_incarnation(1);
    header.set_shard(shard);
    header.set_step(step);
    header.set_epoch(epoch_);
    return header;
  }

  const std::vector<int32_t> heads_;
  const int64_t epoch_;
  const std::vector<ShardRange> ranges_;
  std::vector<std::unique_ptr<RawStream>> streams_;  // [server]
  std::vector<int64_t> steps_;
};

PsServerConfig Config(const std::vector<std::unique_ptr<PsService>>& services, int32_t server,
                      int64_t epoch) {
  PsServerConfig config;
  config.server = server;
  config.servers = 2;
  config.epoch = epoch;
  config.rules = Layout().rules;
  for (int32_t s = 0; s < 2; ++s) {
    if (services[static_cast<size_t>(s)] == nullptr) continue;
    config.successors[s] = services[static_cast<size_t>(s)]->endpoint();
  }
  return config;
}

ChainPlace PlaceOf(int64_t epoch, std::optional<int32_t> predecessor,
                   std::optional<int32_t> successor) {
  ChainPlace place;
  place.epoch = epoch;
  place.head = !predecessor.has_value();
  place.predecessor = predecessor;
  place.successor = successor;
  return place;
}

TEST(PsChain, ADeadServersShardGoesOnWhereItsCopyIs) {
  const MonotonicClock clock;
  std::vector<std::unique_ptr<PsService>> services(2);
  for (auto& service : services) service = *PsService::Start({}, clock);
  for (int32_t s = 0; s < 2; ++s) {
    PsServerConfig config = Config(services, s, 1);
    config.places[s] = PlaceOf(1, std::nullopt, 1 - s);
    config.places[1 - s] = PlaceOf(1, 1 - s, std::nullopt);
    ASSERT_THAT(services[static_cast<size_t>(s)]->Configure(config), IsOk());
  }
  const auto reference = ReferenceRun(kSeed, 1, 4, kCount, kSgd);
  {
    Worker worker(services, {0, 1}, 1);
    worker.Send(INIT, 0, reference[0]);
    for (int64_t step = 1; step <= 2; ++step) {
      worker.Send(PUSH, step, Gradients(kSeed, 0, step, kCount));
      EXPECT_TRUE(SameBits(worker.Pull(step), reference[static_cast<size_t>(step)])) << step;
    }
  }
  services[0].reset();
  const Endpoint before = services[1]->endpoint();
  const auto held = services[1]->Leave(absl::AbortedError("server 0 is lost"));
  ASSERT_EQ(held.size(), 2U);
  for (const HeldShard& shard : held) EXPECT_EQ(shard.version, 2);
  PsServerConfig config = Config(services, 1, 2);
  for (const int32_t shard : {0, 1}) {
    config.places[shard] = PlaceOf(2, std::nullopt, std::nullopt);
  }
  ASSERT_THAT(services[1]->Configure(config), IsOk());
  EXPECT_EQ(services[1]->endpoint().ToString(), before.ToString());
  Worker worker(services, {1, 1}, 2);
  EXPECT_EQ(worker.steps(), (std::vector<int64_t>{2, 2}));
  // What it pushed before the loss comes again, and is not applied again.
  worker.Send(PUSH, 2, Gradients(kSeed, 0, 2, kCount));
  for (int64_t step = 3; step <= 4; ++step) {
    worker.Send(PUSH, step, Gradients(kSeed, 0, step, kCount));
    EXPECT_TRUE(SameBits(worker.Pull(step), reference[static_cast<size_t>(step)])) << step;
  }
  EXPECT_EQ(services[1]->counters().duplicates, 2);
}

}  // namespace
}  // namespace lockstep
