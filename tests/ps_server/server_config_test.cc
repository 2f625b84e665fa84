// What a Start means to one server.
#include "ps_server/service/server_config.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Start StartFrom(const std::string& more) {
  Start start;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "epoch: 3 "
      "member { role: WORKER index: 0 endpoint: '127.0.0.1:10' } "
      "member { role: WORKER index: 2 endpoint: '127.0.0.1:12' } "
      "member { role: SERVER index: 0 endpoint: '127.0.0.1:20' } "
      "member { role: SERVER index: 1 endpoint: '127.0.0.1:21' } "
      "member { role: SERVER index: 2 endpoint: '127.0.0.1:22' } "
      "run { servers: 3 world_size: 3 experiment { train { steps: 10 } } "
      "variant { ps { mode: SYNC policy: CHAIN replicas: 2 } } } " +
          more,
      &start));
  return start;
}

TEST(ServerConfig, PlacesFollowTheChains) {
  const Start start = StartFrom(
      "chain { shard: 0 server: 1 server: 2 joining: 0 } "
      "chain { shard: 1 server: 1 server: 2 } chain { shard: 2 server: 2 joining: 1 }");
  const auto config = ServerConfigFrom(start, 2);
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->epoch, 3);
  EXPECT_THAT(config->present, ElementsAre(true, false, true));
  ASSERT_EQ(config->places.size(), 3U);
  const ChainPlace& middle = config->places.at(0);
  EXPECT_FALSE(middle.head);
  EXPECT_EQ(middle.predecessor, 1);
  EXPECT_EQ(middle.successor, 0);
  EXPECT_TRUE(middle.successor_joins);
  const ChainPlace& tail = config->places.at(1);
  EXPECT_EQ(tail.predecessor, 1);
  EXPECT_FALSE(tail.successor.has_value());
  const ChainPlace& head = config->places.at(2);
  EXPECT_TRUE(head.head);
  EXPECT_EQ(head.successor, 1);
  EXPECT_TRUE(head.successor_joins);
  EXPECT_TRUE(config->exposed);  // shard 2 has two copies of three
  EXPECT_EQ(config->successors.at(1).port, 21);
  EXPECT_EQ(config->snapshot_every, 0);
  const auto joining = ServerConfigFrom(start, 0);
  ASSERT_THAT(joining, IsOk());
  EXPECT_EQ(joining->places.size(), 1U);
  EXPECT_FALSE(joining->exposed);
}

TEST(ServerConfig, WhoJoinsTakesNothingFromASnapshot) {
  const Start start = StartFrom(
      "restore: true step: 20 chain { shard: 0 server: 0 joining: 1 } "
      "chain { shard: 1 server: 1 joining: 2 } chain { shard: 2 server: 2 joining: 0 }");
  EXPECT_THAT(RestoredShards(start, 0), ElementsAre(0));
  EXPECT_THAT(RestoredShards(start, 3), IsEmpty());
  EXPECT_TRUE(ServerConfigFrom(start, 0)->restore);
}

TEST(ServerConfig, SnapshotsAreTakenWhereAskedFor) {
  Start start = StartFrom("");
  Ps* ps = start.mutable_run()->mutable_variant()->mutable_ps();
  ps->set_policy(Ps::SNAPSHOT);
  EXPECT_EQ(ServerConfigFrom(start, 1)->snapshot_every, 10);
  ps->set_policy(Ps::NONE);
  EXPECT_EQ(ServerConfigFrom(start, 1)->snapshot_every, 0);
}

TEST(ServerConfig, AnAddressThatIsNoneIsRefused) {
  Start start = StartFrom("");
  start.mutable_member(3)->set_endpoint("nowhere");
  EXPECT_THAT(ServerConfigFrom(start, 0), StatusIs(absl::StatusCode::kInvalidArgument, "nowhere"));
}

}  // namespace
}  // namespace lockstep
