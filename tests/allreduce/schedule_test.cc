// Properties that every generator promises: it verifies at its declared slots, stands still below
// them where its header says so, and moves the bytes of its formula. Further algorithms join the
// table.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/broadcast.h"
#include "allreduce/schedule/ring.h"
#include "allreduce/schedule/verify.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;

int64_t ChunksSent(const std::vector<Lane>& lanes) {
  int64_t chunks = 0;
  for (const Lane& lane : lanes) {
    for (const Move& move : lane.moves) chunks += move.send_to == kNone ? 0 : move.count;
  }
  return chunks;
}

int64_t ChunksReceived(const std::vector<Lane>& lanes) {
  int64_t chunks = 0;
  for (const Lane& lane : lanes) {
    for (const Move& move : lane.moves) chunks += move.recv_from == kNone ? 0 : move.count;
  }
  return chunks;
}

struct RingCase {
  int32_t n;
  int32_t channels;
};
class RingTest : public testing::TestWithParam<RingCase> {
 protected:
  Schedule Ring() const { return *MakeRing({GetParam().n, GetParam().channels}); }
};

TEST_P(RingTest, VerifiesAtItsDeclaredSlotsAndAbove) {
  for (const int32_t slots : {2, 8}) {
    Schedule ring = Ring();
    EXPECT_EQ(ring.slots, 2);
    ring.slots = slots;
    EXPECT_THAT(Verify(ring, AllReduceGoal(ring)).ToStatus(), IsOk());
  }
}

// A fused move wants a message and a free slot at once: one slot is not enough for a cycle of them.
TEST_P(RingTest, OneSlotIsADeadlockForTwoRanksAndMore) {
  Schedule ring = Ring();
  ring.slots = 1;
  const VerifyReport report = Verify(ring, AllReduceGoal(ring));
  if (GetParam().n == 1) {
    EXPECT_THAT(report.ToStatus(), IsOk());
    return;
  }
  ASSERT_TRUE(report.Has(Fault::kDeadlock));
  EXPECT_THAT(report.ToStatus(), StatusIs(StatusCode::kFailedPrecondition,
                                          "deadlock: rank 0 lane 0 move 1: cycle with 1 slots: "
                                          "rank 0 lane 0 move 1 waits for a free slot to rank 1"));
}

TEST_P(RingTest, EveryRankSendsAndReceivesTheFormulasShare) {
  const auto [n, channels] = GetParam();
  const Schedule ring = Ring();
  EXPECT_EQ(ring.chunks, n * channels);
  for (const auto& lanes : ring.ranks) {
    // 2(n-1)/n of the chunks.
    EXPECT_EQ(ChunksSent(lanes), 2 * (n - 1) * channels);
    EXPECT_EQ(ChunksReceived(lanes), 2 * (n - 1) * channels);
  }
}

TEST_P(RingTest, OneRankAloneIsTheSameProgram) {
  const auto [n, channels] = GetParam();
  const Schedule ring = Ring();
  const std::vector<Lane> last = RingLanes({n, channels}, n - 1);
  ASSERT_EQ(last.size(), ring.ranks.back().size());
  for (size_t i = 0; i < last.size(); ++i) {
    EXPECT_EQ(last[i].channel, static_cast<int32_t>(i));
    EXPECT_EQ(last[i].moves.size(), ring.ranks.back()[i].moves.size());
  }
}

std::string RingName(const testing::TestParamInfo<RingCase>& info) {
  return absl::StrCat("Ranks", info.param.n, "Channels", info.param.channels);
}
std::vector<RingCase> RingCases() {
  std::vector<RingCase> cases;
  for (int32_t n = 1; n <= 17; ++n) cases.push_back({n, 1});
  for (const int32_t n : {1, 2, 3, 5, 8}) cases.push_back({n, 3});
  cases.push_back({33, 1});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(All, RingTest, testing::ValuesIn(RingCases()), RingName);

TEST(RingErrors, NamesWhatItWasGiven) {
  EXPECT_THAT(MakeRing({0, 1}), StatusIs(StatusCode::kInvalidArgument, "world_size 0"));
  EXPECT_THAT(MakeRing({2, 0}), StatusIs(StatusCode::kInvalidArgument, "channels 0"));
}

TEST(BroadcastTest, VerifiesFromEveryRootEvenWithOneSlot) {
  for (const int32_t n : {1, 2, 3, 4, 5, 7, 8, 13, 16, 33}) {
    for (const int32_t root : {0, n / 2, n - 1}) {
      Schedule chain = *MakeBroadcast({n, root, 4});
      for (const int32_t slots : {1, 2}) {
        chain.slots = slots;
        EXPECT_THAT(Verify(chain, BroadcastGoal(chain, root)).ToStatus(), IsOk())
            << "n " << n << " root " << root << " slots " << slots;
      }
    }
  }
}

TEST(BroadcastTest, MovesEveryChunkOnceOverEveryHop) {
  const Schedule chain = *MakeBroadcast({5, 3, 4});
  for (int32_t rank = 0; rank < 5; ++rank) {
    const std::vector<Lane>& lanes = chain.ranks[static_cast<size_t>(rank)];
    EXPECT_EQ(ChunksSent(lanes), rank == 2 ? 0 : 4) << rank;  // 2 is last: 3 -> 4 -> 0 -> 1 -> 2
    EXPECT_EQ(ChunksReceived(lanes), rank == 3 ? 0 : 4) << rank;
  }
}

TEST(BroadcastErrors, NamesWhatItWasGiven) {
  EXPECT_THAT(MakeBroadcast({0, 0, 1}), StatusIs(StatusCode::kInvalidArgument, "world_size 0"));
  EXPECT_THAT(MakeBroadcast({2, 2, 1}), StatusIs(StatusCode::kInvalidArgument, "root 2"));
  EXPECT_THAT(MakeBroadcast({2, 0, 0}), StatusIs(StatusCode::kInvalidArgument, "chunks 0"));
}

}  // namespace
}  // namespace lockstep
