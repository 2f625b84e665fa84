// States as bytes, and shards cut anew.
#include "ps_server/core/shard_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "tests/ps_server/reference.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;

SharedParameters Share(std::vector<float> values) {
  return std::make_shared<const std::vector<float>>(std::move(values));
}

ShardState Sample(int64_t count = 5) {
  ShardState state;
  state.shard = 3;
  state.offset = 4'096;
  state.layout = 0xABCDEF0123456789U;
  state.version = 17;
  state.round = 12;
  state.previous_version = 16;
  state.previous_step = 11;
  state.parameters = Share(NoiseVector(1, 2, count));
  state.previous = Share(NoiseVector(3, 4, count));
  state.optimizer_state = NoiseVector(5, 6, 2 * count);
  state.workers = {{.incarnation = 1, .last_step = 17},
                   {.incarnation = 2, .last_step = 16, .dropped = 3, .rejected = true}};
  state.staleness = {{.applied = 17, .others_at_read = 15, .slowest_at_read = 14}, {}};
  return state;
}

std::vector<std::byte> BytesOf(const ShardState& state) {
  const EncodedState encoded = EncodeState(state);
  std::vector<std::byte> bytes;
  for (const auto part : encoded.parts) bytes.insert(bytes.end(), part.begin(), part.end());
  EXPECT_EQ(static_cast<int64_t>(bytes.size()), encoded.bytes);
  EXPECT_EQ(encoded.checksum, Fingerprint(bytes));
  return bytes;
}

TEST(ShardState, ComesBackFromItsBytes) {
  ShardState state = Sample();
  const std::vector<std::byte> bytes = BytesOf(state);
  EXPECT_EQ(bytes, BytesOf(Sample())) << "two encodings of one state differ";
  const auto decoded = DecodeState(bytes);
  ASSERT_THAT(decoded, IsOk());
  EXPECT_TRUE(*decoded == state);
  state.previous = nullptr;
  state.staleness.clear();
  state.optimizer_state.clear();
  (*std::const_pointer_cast<std::vector<float>>(state.parameters))[0] =
      std::numeric_limits<float>::quiet_NaN();
  const auto smaller = DecodeState(BytesOf(state));
  ASSERT_THAT(smaller, IsOk());
  EXPECT_EQ(smaller->previous, nullptr);
  EXPECT_TRUE(*smaller == state) << "equality is of bits, a NaN's too";
}

TEST(ShardState, EqualityIsOfEveryPart) {
  const ShardState state = Sample();
  const auto changed = [&](auto change) {
    ShardState other = Sample();
    change(&other);
    return !(other == state);
  };
  EXPECT_TRUE(changed([](ShardState* s) { ++s->shard; }));
  EXPECT_TRUE(changed([](ShardState* s) { ++s->offset; }));
  EXPECT_TRUE(changed([](ShardState* s) { ++s->layout; }));
  EXPECT_TRUE(changed([](ShardState* s) { ++s->version; }));
  EXPECT_TRUE(changed([](ShardState* s) { ++s->round; }));
  EXPECT_TRUE(changed([](ShardState* s) { ++s->previous_version; }));
  EXPECT_TRUE(changed([](ShardState* s) { ++s->previous_step; }));
  EXPECT_TRUE(changed([](ShardState* s) { s->parameters = Share({1, 2, 3, 4, 5}); }));
  EXPECT_TRUE(changed([](ShardState* s) { s->previous = nullptr; }));
  EXPECT_TRUE(changed([](ShardState* s) { s->optimizer_state[9] += 1; }));
  EXPECT_TRUE(changed([](ShardState* s) { ++s->workers[1].incarnation; }));
  EXPECT_TRUE(changed([](ShardState* s) { ++s->workers[0].last_step; }));
  EXPECT_TRUE(changed([](ShardState* s) { s->workers[1].rejected = false; }));
  EXPECT_TRUE(changed([](ShardState* s) { ++s->staleness[1].others_at_read; }));
}

TEST(ShardState, TruncatedAtEveryByteIsRefused) {
  const std::vector<std::byte> bytes = BytesOf(Sample());
  for (size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_THAT(DecodeState(std::span(bytes).first(size)),
                StatusIs(StatusCode::kDataLoss, "truncated"))
        << size;
  }
  std::vector<std::byte> longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_THAT(DecodeState(longer), StatusIs(StatusCode::kDataLoss, "damaged"));
}

TEST(ShardState, EveryFlippedBitIsRefused) {
  const std::vector<std::byte> bytes = BytesOf(Sample());
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::vector<std::byte> damaged = bytes;
    damaged[bit / 8] ^= std::byte{1} << (bit % 8);
    const absl::Status status = DecodeState(damaged).status();
    if (bit / 8 >= 8 && bit / 8 < 12) {
      ASSERT_THAT(status, StatusIs(StatusCode::kInvalidArgument, "this program reads format 3"));
    } else if (bit / 8 < 8) {
      ASSERT_THAT(status, StatusIs(StatusCode::kDataLoss, "not the state of a shard"));
    } else {
      ASSERT_THAT(status, StatusIs(StatusCode::kDataLoss, "damaged")) << bit;
    }
  }
}

// A state of an older program was called damaged: SGD without momentum had an optimizer's values.
TEST(ShardState, AnotherFormatIsNamed) {
  std::vector<std::byte> older = BytesOf(Sample());
  older[8] = std::byte{2};
  EXPECT_THAT(DecodeState(older).status(),
              StatusIs(StatusCode::kInvalidArgument, "in format 2; this program reads format 3"));
}

// Cuts the flat space of a state into `shards` shards of 6 elements in all.
constexpr int64_t kFlat = 12;
std::vector<ShardState> Cut(int shards, bool with_previous = true) {
  const std::vector<float> parameters = NoiseVector(1, 1, kFlat);
  const std::vector<float> previous = NoiseVector(1, 2, kFlat);
  const std::vector<float> moments[2] = {NoiseVector(1, 3, kFlat), NoiseVector(1, 4, kFlat)};
  std::vector<ShardState> cut;
  for (int k = 0; k < shards; ++k) {
    const int64_t begin = kFlat * k / shards;
    const int64_t end = kFlat * (k + 1) / shards;
    const auto part = [&](const std::vector<float>& all) {
      return std::vector<float>(all.begin() + begin, all.begin() + end);
    };
    ShardState state;
    state.shard = k;
    state.offset = begin;
    state.layout = 9;
    state.version = 40;
    state.parameters = Share(part(parameters));
    state.round = 40;
    if (with_previous) {
      state.previous = Share(part(previous));
      state.previous_version = 39;
      state.previous_step = 39;
    }
    for (const auto& slot : moments) {
      const std::vector<float> values = part(slot);
      state.optimizer_state.insert(state.optimizer_state.end(), values.begin(), values.end());
    }
    state.workers = {{.incarnation = 1, .last_step = 40}, {.incarnation = 1, .last_step = 40}};
    cut.push_back(state);
  }
  return cut;
}

class Recuts : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(Recuts, GiveTheShardsOfAnotherNumberOfServers) {
  const auto [from, to] = GetParam();
  for (const bool with_previous : {true, false}) {
    const std::vector<ShardState> parts = Cut(from, with_previous);
    for (const ShardState& expected : Cut(to, with_previous)) {
      const auto shard = Recut(parts, expected.shard, expected.offset,
                               static_cast<int64_t>(expected.parameters->size()));
      ASSERT_THAT(shard, IsOk());
      EXPECT_TRUE(*shard == expected) << "shard " << expected.shard;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Servers, Recuts,
                         testing::Values(std::pair{3, 2}, std::pair{3, 4}, std::pair{1, 4},
                                         std::pair{4, 1}, std::pair{3, 3}));

TEST(Recut, TakesForAppliedOnlyWhatEveryPartHas) {
  std::vector<ShardState> parts = Cut(3);
  parts[1].workers[0] = {.incarnation = 2, .last_step = 38, .dropped = 1, .rejected = true};
  parts[2].workers[1].last_step = 39;
  const auto shard = Recut(parts, 0, 0, 6);
  ASSERT_THAT(shard, IsOk());
  const WorkerMark expected = {.incarnation = 2, .last_step = 38, .dropped = 1, .rejected = true};
  EXPECT_TRUE(shard->workers[0] == expected);
  EXPECT_EQ(shard->workers[1].last_step, 39);
}

TEST(Recut, OfAsynchronousShardsCountsTheirVersionsAnew) {
  std::vector<ShardState> parts = Cut(2);
  for (ShardState& part : parts) {
    part.staleness = {{.applied = 40, .others_at_read = 39, .slowest_at_read = 38},
                      {.applied = 40, .others_at_read = 40, .slowest_at_read = 39}};
    part.version = 80;
  }
  parts[1].version = 75;
  parts[1].workers[1].last_step = 35;
  parts[1].staleness[1] = {.applied = 35, .others_at_read = 38, .slowest_at_read = 30};
  const auto shard = Recut(parts, 0, 0, kFlat);
  ASSERT_THAT(shard, IsOk());
  EXPECT_EQ(shard->version, 75);
  EXPECT_EQ(shard->staleness[0].others_at_read, 35) << "no more than what is taken for applied";
  EXPECT_EQ(shard->staleness[0].slowest_at_read, 35);
  EXPECT_EQ(shard->staleness[1].applied, 35);
  EXPECT_EQ(shard->staleness[1].others_at_read, 38);
}

TEST(Recut, RefusesByName) {
  std::vector<ShardState> parts = Cut(3);
  EXPECT_THAT(Recut({}, 0, 0, 6), StatusIs(StatusCode::kInvalidArgument, "out of 0 states"));
  EXPECT_THAT(Recut(parts, 0, 6, std::numeric_limits<int64_t>::max()),
              StatusIs(StatusCode::kInvalidArgument, "elements [6"));
  EXPECT_THAT(Recut(std::span(parts).first(2), 1, 6, 6),
              StatusIs(StatusCode::kNotFound, "element 8 of [6, 12)"));
  // Rounds say whether states are of one cut; without them versions do.
  parts[2].version = 41;
  EXPECT_THAT(Recut(parts, 0, 0, 6), IsOk());
  ++parts[2].round;
  EXPECT_THAT(Recut(parts, 0, 0, 6),
              StatusIs(StatusCode::kFailedPrecondition, "shard 2, version 41 and shard 0"));
  for (ShardState& part : parts) part.round = 0;
  EXPECT_THAT(Recut(parts, 0, 0, 6),
              StatusIs(StatusCode::kFailedPrecondition, "shard 2, version 41 and shard 0"));
  parts[2].version = 40;
  parts[1].layout = 8;
  EXPECT_THAT(Recut(parts, 0, 0, 6), StatusIs(StatusCode::kFailedPrecondition, "layout 8 and 9"));
  parts[1].layout = 9;
  parts[1].optimizer_state.pop_back();
  EXPECT_THAT(Recut(parts, 0, 0, 6), StatusIs(StatusCode::kInvalidArgument, "shard 1"));
}

}  // namespace
}  // namespace lockstep
