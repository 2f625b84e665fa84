// The executor on hand-made programs: what no generator makes is refused with the reason, and the
// cases of a move come out as its equation says.
#include "allreduce/host/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/allreduce/group.h"
#include "tests/allreduce/late_link.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::ElementsAre;

RankPart Part(int32_t chunks, int32_t scratch, std::vector<Lane> lanes) {
  RankPart part;
  part.chunks = chunks;
  part.scratch = scratch;
  part.lanes = std::move(lanes);
  return part;
}

class ExecutorTest : public testing::Test {
 protected:
  absl::Status Run(int rank, const RankPart& part, std::vector<int64_t>* data) {
    HostExecutor executor(links_[static_cast<size_t>(rank)].get(), clock_);
    ExecuteCall call;
    call.data = data->data();
    call.count = static_cast<int64_t>(data->size());
    call.dtype = Dtype::kI64;
    call.tile_bytes = 16;  // two elements
    call.message_bytes_max = 1'024;
    call.deadline_ns = clock_.NowNs() + 10'000 * kNsPerMs;
    absl::Status status = executor.Run(part, call);
    links_[static_cast<size_t>(rank)]->Cancel();
    return status;
  }
  absl::Status RunAlone(const RankPart& part) {
    std::vector<int64_t> data(6, 1);
    return Run(0, part, &data);
  }

  MonotonicClock clock_;
  Limits limits_;
  Abort abort_;
  std::vector<std::unique_ptr<Link>> links_ =
      MakeInProcessLinks({.world_size = 2}, limits_, clock_, abort_);
};

TEST_F(ExecutorTest, MovesWithoutMessagesCopyAndFold) {
  // Chunks {1, 2, 3}, {10, 20, 30}; scratch 2 and 3 are like chunks 0 and 1.
  std::vector<int64_t> data = {1, 2, 3, 10, 20, 30};
  const std::vector<Move> moves = {{.in = 0, .out = 2, .count = 2},
                                   {.in = 2, .out = 0, .fold = true},
                                   {.in = 0, .out = 2},
                                   {.in = 2, .out = 0, .count = 2, .fold = true}};
  EXPECT_THAT(Run(0, Part(2, 2, {{0, moves}}), &data), IsOk());
  EXPECT_THAT(data, ElementsAre(4, 8, 12, 20, 40, 60));
}

// v = (message + in) + out, kept or sent on; what is sent is what is kept.
TEST_F(ExecutorTest, AMessageMeetsBothOperands) {
  std::vector<int64_t> there = {1, 2, 3, 4, 5};
  std::vector<int64_t> here = {10, 20, 30, 40, 50};
  const std::vector<Move> sends = {{.send_to = 1, .in = 0},
                                   {.recv_from = 1, .out = 0},
                                   {.send_to = 1, .in = 0},
                                   {.recv_from = 1, .in = 0, .out = 0}};
  const std::vector<Move> folds = {
      {.in = 0, .out = 1},
      {.recv_from = 0, .send_to = 0, .in = 1, .out = 0, .fold = true},  // 21 x
      {.recv_from = 0, .in = 1, .out = 0, .fold = true},                // 21 + 10 + 21 = 52 x
      {.send_to = 0, .in = 0, .out = 1}};
  OnEachRank(2, [&](int rank) {
    EXPECT_THAT(rank == 0 ? Run(0, Part(1, 0, {{0, sends}}), &there)
                          : Run(1, Part(1, 1, {{0, folds}}), &here),
                IsOk());
  });
  EXPECT_THAT(here, ElementsAre(52, 104, 156, 208, 260));
  EXPECT_THAT(there, ElementsAre(73, 146, 219, 292, 365));
}

// Lane 1 doubles what lane 0 receives. Would a tile before do, it would double what isn't there
// yet.
TEST_F(ExecutorTest, AWaitMeansTheSameTile) {
  std::vector<int64_t> there = {1, 2, 3, 4, 5, 6};
  std::vector<int64_t> here(6, 1'000);
  const Lane receives{0, {{.recv_from = 1, .out = 0}}};
  const Lane doubles{
      0, {{.in = 0, .out = 1, .wait_lane = 0, .wait_move = 0}, {.in = 1, .out = 0, .fold = true}}};
  OnEachRank(2, [&](int rank) {
    EXPECT_THAT(rank == 0 ? Run(0, Part(1, 1, {receives, doubles}), &here)
                          : Run(1, Part(1, 0, {{0, {{.send_to = 0, .in = 0}}}}), &there),
                IsOk());
  });
  EXPECT_THAT(here, ElementsAre(2, 4, 6, 8, 10, 12));
}

// Both ranks send what the next move overwrites; the late one's value is still to go when the
// other's is there.
TEST_F(ExecutorTest, AValueIsSavedBeforeItsPlaceIsOverwritten) {
  links_[1] = std::make_unique<LateLink>(std::move(links_[1]));
  const RankPart swap_with_1 =
      Part(1, 0, {{0, {{.send_to = 1, .in = 0}, {.recv_from = 1, .out = 0}}}});
  const RankPart swap_with_0 =
      Part(1, 0, {{0, {{.send_to = 0, .in = 0}, {.recv_from = 0, .out = 0}}}});
  std::vector<int64_t> first = {1, 2, 3};
  std::vector<int64_t> second = {10, 20, 30};
  OnEachRank(2, [&](int rank) {
    EXPECT_THAT(rank == 0 ? Run(0, swap_with_1, &first) : Run(1, swap_with_0, &second), IsOk());
  });
  EXPECT_THAT(first, ElementsAre(10, 20, 30));
  EXPECT_THAT(second, ElementsAre(1, 2, 3));
}

TEST_F(ExecutorTest, ARankWithoutMovesIsThroughAtOnce) {
  EXPECT_THAT(RunAlone(Part(2, 0, {})), IsOk());
  EXPECT_THAT(RunAlone(Part(2, 0, {{0, {}}})), IsOk());
}

TEST_F(ExecutorTest, RefusesWhatNoGeneratorMakes) {
  const auto refusal = [&](const Move& move) { return RunAlone(Part(2, 4, {{0, {move}}})); };
  EXPECT_THAT(refusal({.recv_from = 1, .send_to = 1}),
              StatusIs(StatusCode::kUnimplemented, "passed on without being kept"));
  EXPECT_THAT(refusal({.send_to = 1, .out = 0, .fold = true}),
              StatusIs(StatusCode::kUnimplemented, "neither a message nor a chunk"));
  EXPECT_THAT(refusal({.recv_from = 1, .in = 1, .out = 1, .fold = true}),
              StatusIs(StatusCode::kUnimplemented, "chunk 1 folded twice"));
  EXPECT_THAT(refusal({.in = 0, .out = 3}),
              StatusIs(StatusCode::kUnimplemented, "1 chunks read from 0 and written to 3"));
  EXPECT_THAT(refusal({.in = 0, .out = 2, .count = 3}),
              StatusIs(StatusCode::kUnimplemented, "which are others or overlap"));
}

TEST_F(ExecutorTest, RefusesScratchThatTwoLanesUse) {
  const Move fill{.in = 0, .out = 2};
  EXPECT_THAT(RunAlone(Part(2, 2, {{0, {fill}}, {0, {fill}}})),
              StatusIs(StatusCode::kUnimplemented, "scratch chunk 2 used by lanes 0 and 1"));
}

}  // namespace
}  // namespace lockstep
