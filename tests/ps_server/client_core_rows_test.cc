// Rows of a table from the worker's side: which row goes to which server, in which frames.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/ps_server/client_core_fixture.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// A table of 48 rows of 64 elements, 16 in each of three shards.
class ClientRowsTest : public CoreTest {
 protected:
  ClientCore& Table(int64_t chunk_bytes = 4'096, Dtype wire = Dtype::kF32) {
    CoreCase test;
    test.tensors = {3 * 1'024};
    test.row_elements = {64};
    test.server_of_shard = {0, 1, 2};
    test.chunk_bytes = chunk_bytes;
    test.rules.wire_dtype = wire;
    return Welcomed(test);
  }
  static std::vector<int64_t> RowsIn(const ClientFrame& frame) {
    return {frame.header.rows().row().begin(), frame.header.rows().row().end()};
  }
  // Row r's gradients are r, r, ...
  static std::vector<float> GradientsOf(const std::vector<int64_t>& rows) {
    std::vector<float> values;
    for (const int64_t row : rows) values.insert(values.end(), 64, static_cast<float>(row));
    return values;
  }
  absl::Status ReplyRows(size_t shard, int64_t rows, float value) {
    PsFrame reply = Chunk(shard, 1, 1, 0);
    reply.set_total(rows * 64);
    reply.mutable_rows()->set_tensor(0);
    return Say(reply, Values(rows * 64, value));
  }
};

TEST_F(ClientRowsTest, EveryShardHearsOfItsRows) {
  ClientCore& core = Table();
  const std::vector<int64_t> rows = {0, 15, 32, 33, 47};  // 16 rows a shard; the second has none
  const std::vector<float> gradients = GradientsOf(rows);
  ASSERT_THAT(core.PushRows(1, 0, rows, gradients), IsOk());
  std::vector<ClientFrame> frames = TakeAll();
  ASSERT_THAT(frames, SizeIs(3));
  EXPECT_THAT(RowsIn(frames[0]), ElementsAre(0, 15));
  EXPECT_THAT(RowsIn(frames[1]), IsEmpty());
  EXPECT_THAT(RowsIn(frames[2]), ElementsAre(32, 33, 47));
  for (size_t k = 0; k < frames.size(); ++k) {
    EXPECT_EQ(frames[k].header.kind(), PUSH);
    EXPECT_EQ(frames[k].header.shard(), static_cast<int32_t>(k));
    EXPECT_TRUE(frames[k].header.rows().last());
  }
  // From where the caller has them.
  EXPECT_EQ(frames[2].payload.data(),
            reinterpret_cast<const std::byte*>(gradients.data() + 2 * 64));
  EXPECT_EQ(frames[2].payload.size(), 3U * 64 * 4);
  EXPECT_TRUE(core.done());

  std::vector<float> pulled(gradients.size());
  ASSERT_THAT(core.PullRows(1, 0, rows, pulled), IsOk());
  frames = TakeAll();
  ASSERT_THAT(frames, SizeIs(3));
  EXPECT_EQ(frames[1].header.kind(), PULL);
  EXPECT_THAT(RowsIn(frames[2]), ElementsAre(32, 33, 47));
  EXPECT_THAT(ReplyRows(0, 2, 7), IsOk());
  EXPECT_THAT(ReplyRows(2, 3, 9), IsOk());
  EXPECT_FALSE(core.done()) << "the shard without rows has not said that the step is through";
  EXPECT_THAT(ReplyRows(1, 0, 0), IsOk());
  EXPECT_TRUE(core.done());
  EXPECT_EQ(pulled[2 * 64 - 1], 7);
  EXPECT_EQ(pulled[2 * 64], 9);
  EXPECT_EQ(pulled.back(), 9);
}

TEST_F(ClientRowsTest, ManyRowsGoInFramesThatHoldAChunk) {
  for (const Dtype wire : {Dtype::kF32, Dtype::kBf16}) {
    const int64_t row_bytes = 64 * SizeOf(wire);
    ClientCore& core = Table(3 * (row_bytes + 8) + 1, wire);
    const std::vector<int64_t> rows = {1, 2, 3, 5, 6, 7, 8};
    const std::vector<float> gradients = GradientsOf(rows);
    ASSERT_THAT(core.PushRows(1, 0, rows, gradients), IsOk());
    const std::vector<ClientFrame> frames = TakeAll();
    ASSERT_THAT(frames, SizeIs(5));
    EXPECT_THAT(RowsIn(frames[0]), ElementsAre(1, 2, 3));
    EXPECT_THAT(RowsIn(frames[1]), ElementsAre(5, 6, 7));
    EXPECT_THAT(RowsIn(frames[2]), ElementsAre(8));
    EXPECT_FALSE(frames[1].header.rows().last());
    EXPECT_TRUE(frames[2].header.rows().last());
    // All frames of a push are alive at once.
    for (size_t i = 0; i < 3; ++i) {
      const std::string expected = OnTheWire(GradientsOf(RowsIn(frames[i])));
      ASSERT_EQ(frames[i].payload.size(), expected.size());
      EXPECT_EQ(std::memcmp(frames[i].payload.data(), expected.data(), expected.size()), 0) << i;
    }
  }
}

TEST_F(ClientRowsTest, WhatIsNoRowIsNotSent) {
  ClientCore& core = Table();
  const std::vector<float> two(2 * 64);
  const auto push = [&](int32_t tensor, const std::vector<int64_t>& rows) {
    return core.PushRows(1, tensor, rows, two);
  };
  EXPECT_THAT(push(1, {0, 1}), StatusIs(StatusCode::kInvalidArgument, "it is no table"));
  EXPECT_THAT(push(-1, {0, 1}), StatusIs(StatusCode::kInvalidArgument, "it is no table"));
  EXPECT_THAT(push(0, {0, 48}), StatusIs(StatusCode::kInvalidArgument, "row 48 of table 0"));
  EXPECT_THAT(push(0, {1, 0}), StatusIs(StatusCode::kInvalidArgument, "comes after row 1"));
  EXPECT_THAT(push(0, {1, 1}), StatusIs(StatusCode::kInvalidArgument, "comes twice"));
  EXPECT_THAT(push(0, {1}), StatusIs(StatusCode::kInvalidArgument, "128 values for 1 rows of 64"));
  EXPECT_TRUE(core.done());
  EXPECT_THAT(TakeAll(), IsEmpty());
  ClientCore& narrow = Table(200);
  EXPECT_THAT(narrow.PushRows(1, 0, std::vector<int64_t>{0, 1}, two),
              StatusIs(StatusCode::kInvalidArgument, "do not fit limits.chunk_bytes 200"));
}

TEST_F(ClientRowsTest, AReplyOfAnotherKindIsRefused) {
  const std::vector<int64_t> rows = {0, 1};
  std::vector<float> pulled(2 * 64);
  const auto after = [&](const std::function<void(PsFrame*)>& change, int64_t elements) {
    ClientCore& core = Table();
    EXPECT_THAT(core.PullRows(1, 0, rows, pulled), IsOk());
    TakeAll();
    PsFrame reply = Chunk(0, 1, 1, 0);
    reply.set_total(2 * 64);
    reply.mutable_rows()->set_tensor(0);
    change(&reply);
    return Say(reply, Values(elements, 1));
  };
  EXPECT_THAT(after([](PsFrame*) {}, 2 * 64), IsOk());
  const std::vector<std::pair<std::function<void(PsFrame*)>, int64_t>> wrong = {
      {[](PsFrame* reply) { reply->clear_rows(); }, 2 * 64},
      {[](PsFrame* reply) { reply->mutable_rows()->set_tensor(1); }, 2 * 64},
      {[](PsFrame* reply) { reply->set_total(3 * 64); }, 2 * 64},
      {[](PsFrame*) {}, 3 * 64},
      {[](PsFrame*) {}, 0},
      {[](PsFrame* reply) { reply->set_shard(1); }, 2 * 64}};
  for (const auto& [change, elements] : wrong) {
    EXPECT_THAT(after(change, elements), StatusIs(StatusCode::kInternal, "out of turn"));
  }
}

}  // namespace
}  // namespace lockstep
