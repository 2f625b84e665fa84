// A worker's protocol against a scripted server: who is greeted, what is sent, what may be answered
// and when. Where a worker goes on, and which versions it may be given: client_resume_test.cc.
#include "ps_server/client/client_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/ps_server/client_core_fixture.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::ElementsAre;

class ClientCoreTest : public CoreTest {};

// One stream a server; each of its shards is greeted on it.
TEST_F(ClientCoreTest, GreetsEachShardAtTheHeadOfItsChain) {
  ClientCore& core = Make({.tensors = {1'024, 1'024, 1'024}, .server_of_shard = {2, 0, 2}});
  EXPECT_THAT(core.servers(), ElementsAre(0, 2));
  core.Hello();
  EXPECT_EQ(core.Next(1), std::nullopt);
  std::vector<int32_t> shards;
  while (const auto frame = core.Next(2)) {
    EXPECT_EQ(frame->header.kind(), HELLO);
    EXPECT_EQ(frame->header.worker(), kCoreRank);
    EXPECT_EQ(frame->header.incarnation(), 7);
    EXPECT_EQ(frame->header.epoch(), kCoreEpoch);
    EXPECT_EQ(frame->header.layout(), FingerprintOf(layout_));
    EXPECT_THAT(frame->header.tensor_counts(), ElementsAre(1'024, 1'024, 1'024));
    shards.push_back(frame->header.shard());
  }
  EXPECT_THAT(shards, ElementsAre(0, 2));
  ASSERT_THAT(Say(Header(WELCOME, 0)), IsOk());
  EXPECT_EQ(core.Awaited(),
            "the welcome of shard 1 from server 0, the welcome of shard 2 from server 2");
  EXPECT_THAT(core.AwaitedServers(), ElementsAre(0, 2));
  TakeAll();
  ASSERT_THAT(Say(Header(WELCOME, 1)), IsOk());
  EXPECT_FALSE(core.done());
  ASSERT_THAT(Say(Header(WELCOME, 2)), IsOk());
  EXPECT_TRUE(core.done());
  EXPECT_FALSE(core.initialized());
  EXPECT_THAT(core.AwaitedServers(), ElementsAre());
}

TEST_F(ClientCoreTest, GreetsAllShardsOfAServerAgainWhoseStreamIsNew) {
  ClientCore& core = Make({.tensors = {1'024, 1'024, 1'024}, .server_of_shard = {0, 0, 1}});
  core.Hello();
  EXPECT_EQ(TakeAll().size(), 3U);
  ASSERT_THAT(Say(Header(WELCOME, 0)), IsOk());
  core.HelloAgain(0);
  EXPECT_EQ(TakeAll().size(), 2U);
  for (const size_t shard : {1U, 2U}) ASSERT_THAT(Say(Header(WELCOME, shard)), IsOk());
  EXPECT_EQ(core.Awaited(), "the welcome of shard 0 from server 0");
  ASSERT_THAT(Say(Header(WELCOME, 0)), IsOk());
  EXPECT_TRUE(core.done());
}

// Frames come one at a time, as the caller has room, and cover what was pushed once.
TEST_F(ClientCoreTest, APushIsCutAtShardBordersAndIntoChunks) {
  ClientCore& core = Welcomed({});
  const std::vector<float> gradients(2'000, 1.5F);
  ASSERT_THAT(core.Push(1, 1'000, gradients), IsOk());  // elements [1000, 3000)
  struct Sent {
    int32_t shard;
    int64_t offset;
    int64_t count;
    bool operator==(const Sent&) const = default;
  };
  std::vector<Sent> sent;
  for (const ClientFrame& frame : TakeAll()) {
    EXPECT_EQ(frame.header.kind(), PUSH);
    EXPECT_EQ(frame.header.step(), 1);
    EXPECT_EQ(frame.header.total(), ranges_[static_cast<size_t>(frame.header.shard())].count);
    sent.push_back({frame.header.shard(), frame.header.offset(),
                    static_cast<int64_t>(frame.payload.size()) / 4});
  }
  EXPECT_EQ(sent, (std::vector<Sent>{{0, 1'000, 24}, {1, 0, 1'024}, {1, 1'024, 952}}));
  EXPECT_TRUE(core.done());
}

TEST_F(ClientCoreTest, IsThroughWithAPushOnceTheLastFrameIsTaken) {
  ClientCore& core = Welcomed({.server_of_shard = {0, 0}});
  const std::vector<float> gradients(static_cast<size_t>(elements()), 1.0F);
  ASSERT_THAT(core.Push(1, 0, gradients), IsOk());
  int64_t left = elements();
  while (!core.done()) {
    EXPECT_EQ(core.Awaited().find("server 0 to take "), 0U) << core.Awaited();
    const auto frame = core.Next(0);
    ASSERT_TRUE(frame.has_value());
    left -= static_cast<int64_t>(frame->payload.size()) / 4;
  }
  EXPECT_EQ(left, 0);
  EXPECT_EQ(core.Next(0), std::nullopt);
}

// SYNC: one version a step, whenever it is asked for.
TEST_F(ClientCoreTest, TheLastChunkOfAStepAsksForTheParameters) {
  ClientCore& core = Welcomed({});
  const std::vector<float> gradients(3'072, 1.0F);
  const auto push = [&](int64_t offset, size_t count) {
    EXPECT_THAT(core.Push(1, offset, std::span(gradients).first(count)), IsOk());
    std::vector<bool> pulls;
    for (const ClientFrame& frame : TakeAll()) pulls.push_back(frame.header.pulls());
    return pulls;
  };
  EXPECT_THAT(push(1'536, 1'536), ElementsAre(false, false));  // of shard 1 [512, 2048)
  EXPECT_THAT(push(0, 1'536), ElementsAre(true, true));
  EXPECT_THAT(push(0, 1'024), ElementsAre(false));  // again: it is asked for once
  std::vector<float> parameters(3'072);
  core.Pull(1, parameters);
  EXPECT_THAT(TakeAll(), testing::IsEmpty());
  ASSERT_THAT(Reply(0, 1, 1, 5.0F), IsOk());
  ASSERT_THAT(Reply(1, 1, 1, 6.0F), IsOk());
  EXPECT_TRUE(core.done());
  EXPECT_EQ(parameters.front(), 5.0F);
  EXPECT_EQ(parameters.back(), 6.0F);
}

TEST_F(ClientCoreTest, AReplyThatComesWhileOtherShardsArePushedWaitsForThePull) {
  ClientCore& core = Welcomed({});
  const std::vector<float> gradients(3'072, 1.0F);
  ASSERT_THAT(core.Push(1, 0, std::span(gradients).first(1'024)), IsOk());
  TakeAll();
  EXPECT_TRUE(core.TakesLater(Chunk(0, 1, 1, 0)));
  EXPECT_FALSE(core.TakesLater(Chunk(1, 1, 1, 0))) << "shard 1 was not asked";
  EXPECT_FALSE(core.TakesLater(Header(REFUSED, 0)));
  ASSERT_THAT(core.Push(1, 1'024, std::span(gradients).first(2'048)), IsOk());
  TakeAll();
  std::vector<float> parameters(3'072);
  core.Pull(1, parameters);
  EXPECT_FALSE(core.TakesLater(Chunk(0, 1, 1, 0)));
  EXPECT_THAT(Reply(0, 1, 1, 5.0F), IsOk());
}

// Where it matters when one reads, and where rows may be pulled alone, a pull is a frame of its
// own.
TEST_F(ClientCoreTest, OtherModesAndTablesAskWhenTheyPull) {
  CoreCase async;
  async.rules.mode = PsMode::kAsync;
  CoreCase table;
  table.row_elements = {2, 2};
  for (const CoreCase& test : {async, table}) {
    ClientCore& core = Welcomed(test);
    const std::vector<float> gradients(3'072, 1.0F);
    ASSERT_THAT(core.Push(1, 0, gradients), IsOk());
    for (const ClientFrame& frame : TakeAll()) EXPECT_FALSE(frame.header.pulls());
    std::vector<float> parameters(3'072);
    core.Pull(1, parameters);
    std::vector<PsKind> kinds;
    for (const ClientFrame& frame : TakeAll()) kinds.push_back(frame.header.kind());
    EXPECT_THAT(kinds, ElementsAre(PULL, PULL));
  }
}

TEST_F(ClientCoreTest, AnEmptyPushSendsNothing) {
  ClientCore& core = Welcomed({});
  ASSERT_THAT(core.Push(1, elements(), {}), IsOk());
  EXPECT_TRUE(core.done());
}

TEST_F(ClientCoreTest, APushOutsideTheFlatSpaceIsRefused) {
  ClientCore& core = Welcomed({});
  const std::vector<float> gradients(10);
  EXPECT_THAT(core.Push(4, 3'063, gradients),
              StatusIs(StatusCode::kInvalidArgument,
                       "worker 1, push of step 4: elements [3063, 3073) of 3072"));
  EXPECT_THAT(core.Push(4, -1, gradients), StatusIs(StatusCode::kInvalidArgument, "[-1, 9)"));
  EXPECT_THAT(core.Push(4, 3'062, gradients), IsOk());
}

// f32 in one piece travels from where it stands.
TEST_F(ClientCoreTest, SendsFromTheCallersMemoryWhereItCan) {
  ClientCore& core = Welcomed({});
  const std::vector<float> gradients(static_cast<size_t>(elements()), 1.0F);
  ASSERT_THAT(core.Push(1, 0, gradients), IsOk());
  const auto all = std::as_bytes(std::span(gradients));
  for (const ClientFrame& frame : TakeAll()) {
    EXPECT_GE(frame.payload.data(), all.data());
    EXPECT_LE(frame.payload.data() + frame.payload.size(), all.data() + all.size());
  }
}

TEST_F(ClientCoreTest, StartValuesGoToTheShardsThatLackThem) {
  ClientCore& core = Make({});
  core.Hello();
  TakeAll();
  PsFrame welcome = Header(WELCOME, 0);
  welcome.set_initialized(true);
  ASSERT_THAT(Say(welcome), IsOk());
  ASSERT_THAT(Say(Header(WELCOME, 1)), IsOk());
  EXPECT_FALSE(core.initialized());
  const std::vector<float> values(static_cast<size_t>(elements()), 2.0F);
  core.Init(values);
  int64_t sent = 0;
  for (const ClientFrame& frame : TakeAll()) {
    EXPECT_EQ(frame.header.kind(), INIT);
    EXPECT_EQ(frame.header.shard(), 1);
    sent += static_cast<int64_t>(frame.payload.size()) / 4;
  }
  EXPECT_EQ(sent, ranges_[1].count);
  EXPECT_TRUE(core.done());
}

struct WireCase {
  const char* name;
  Dtype wire;
  PsPlacement placement;
  size_t piece_bytes;  // of what is received
};
void PrintTo(const WireCase& row, std::ostream* out) { *out << row.name; }
class WireTest : public CoreTest, public testing::WithParamInterface<WireCase> {};

// Whatever the placement and the wire's dtype, each value goes to its shard's place and back to its
// own, rounded as the wire rounds.
TEST_P(WireTest, ValuesFindTheirPlace) {
  const WireCase& row = GetParam();
  CoreCase test;
  test.rules.wire_dtype = row.wire;
  test.placement = row.placement;
  test.tensors = {700, 1'500, 64, 1, 900};
  test.server_of_shard = {1, 0};
  test.chunk_bytes = 512;
  ClientCore& core = Welcomed(test);
  std::vector<float> flat(static_cast<size_t>(elements()));
  for (size_t i = 0; i < flat.size(); ++i) flat[i] = 0.1F * static_cast<float>(i) - 70.0F;
  // What the shards should get: their parts, one after the other.
  std::vector<std::string> expected(2);
  for (size_t k = 0; k < 2; ++k) {
    std::vector<float> values;
    for (const TensorPart& part : ranges_[k].parts) {
      const auto first = flat.begin() + part.flat;
      values.insert(values.end(), first, first + part.count);
    }
    expected[k] = OnTheWire(values);
  }
  // In buckets from the end, as a backward pass fills them.
  std::vector<std::string> got = {std::string(expected[0].size(), '?'),
                                  std::string(expected[1].size(), '?')};
  const auto size = static_cast<size_t>(SizeOf(row.wire));
  for (int64_t end = elements(); end > 0; end -= std::min<int64_t>(end, 777)) {
    const int64_t count = std::min<int64_t>(end, 777);
    ASSERT_THAT(core.Push(1, end - count,
                          std::span(flat).subspan(static_cast<size_t>(end - count),
                                                  static_cast<size_t>(count))),
                IsOk());
    for (const ClientFrame& frame : TakeAll()) {
      EXPECT_LE(frame.payload.size(), 512U);
      std::memcpy(got[static_cast<size_t>(frame.header.shard())].data() +
                      static_cast<size_t>(frame.header.offset()) * size,
                  frame.payload.data(), frame.payload.size());
    }
  }
  EXPECT_EQ(got, expected);
  // And back, in chunks whose pieces are cut within elements.
  std::vector<float> back(flat.size(), -1.0F);
  core.Pull(1, back);
  TakeAll();
  for (size_t k = 0; k < 2; ++k) {
    for (size_t at = 0; at < expected[k].size(); at += 600) {
      ASSERT_THAT(Say(Chunk(k, 1, 1, static_cast<int64_t>(at / size)), expected[k].substr(at, 600),
                      row.piece_bytes),
                  IsOk());
    }
  }
  EXPECT_TRUE(core.done());
  std::vector<float> rounded(flat.size());
  const std::string wire = OnTheWire(flat);
  if (row.wire == Dtype::kF32) {
    rounded = flat;
  } else {
    Convert(row.wire, wire.data(), Dtype::kF32, rounded.data(), elements());
  }
  EXPECT_EQ(back, rounded);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, WireTest,
    testing::Values(WireCase{"F32Split", Dtype::kF32, PsPlacement::kSplit, 7},
                    WireCase{"F32InTurn", Dtype::kF32, PsPlacement::kInTurn, 7},
                    WireCase{"F32BySize", Dtype::kF32, PsPlacement::kBySize, 1'000},
                    WireCase{"F16Split", Dtype::kF16, PsPlacement::kSplit, 7},
                    WireCase{"F16InTurn", Dtype::kF16, PsPlacement::kInTurn, 3},
                    WireCase{"Bf16BySize", Dtype::kBf16, PsPlacement::kBySize, 5}),
    [](const auto& row) { return row.param.name; });

struct Wrong {
  const char* name;
  std::function<void(PsFrame*)> change;
  const char* part;
  int64_t count = 500;
};
void PrintTo(const Wrong& row, std::ostream* out) { *out << row.name; }
class OutOfTurn : public CoreTest, public testing::WithParamInterface<Wrong> {};

// SYNC, step 5: shard 1 has sent its first 500 elements.
TEST_P(OutOfTurn, IsAnErrorThatSaysWhatWasExpected) {
  ClientCore& core = Welcomed({});
  std::vector<float> parameters(static_cast<size_t>(elements()));
  core.Pull(5, parameters);
  TakeAll();
  ASSERT_THAT(Say(Chunk(1, 5, 5, 0), Values(500, 1.0F)), IsOk());
  PsFrame header = Chunk(1, 5, 5, 500);
  GetParam().change(&header);
  const absl::Status status = core.OnFrame(
      1, ReadFrame(header, std::string(static_cast<size_t>(GetParam().count) * 4, 'x')).frame());
  EXPECT_THAT(status, StatusIs(StatusCode::kInternal, GetParam().part));
  // Dead: it asks for nothing any more, and stays with its reason.
  EXPECT_EQ(core.OnFrame(1, ReadFrame(Chunk(1, 5, 5, 500), Values(10, 1.0F)).frame()), status);
  EXPECT_EQ(core.Next(0), std::nullopt);
  EXPECT_TRUE(core.torn());
}

INSTANTIATE_TEST_SUITE_P(
    Rows, OutOfTurn,
    testing::Values(
        Wrong{"Epoch", [](PsFrame* f) { f->set_epoch(2); }, "epoch 2, worker 1, shard 1; expected"},
        Wrong{"Worker", [](PsFrame* f) { f->set_worker(0); }, "epoch 3, worker 0, shard 1"},
        Wrong{"Shard", [](PsFrame* f) { f->set_shard(0); }, "a shard that it serves"},
        Wrong{"NoSuchShard", [](PsFrame* f) { f->set_shard(-1); }, "shard -1"},
        Wrong{"Step", [](PsFrame* f) { f->set_step(4); }, "out of turn: step 4, version 5"},
        Wrong{"EarlierVersion", [](PsFrame* f) { f->set_version(4); },
              "expected step 5, version 5"},
        Wrong{"LaterVersion", [](PsFrame* f) { f->set_version(6); }, "version 6 of shard 1"},
        Wrong{"Again", [](PsFrame* f) { f->set_offset(0); }, "at element 0 of"},
        Wrong{"Gap", [](PsFrame* f) { f->set_offset(600); }, "of shard 1 at element 500 of"},
        Wrong{"TooMuch", [](PsFrame*) {}, "out of turn", 2'000},
        Wrong{"Nothing", [](PsFrame*) {}, "out of turn: step 5, version 5 of shard 1, 0 bytes", 0},
        Wrong{"OtherLength", [](PsFrame* f) { f->set_total(9); }, "of 9; expected"},
        Wrong{"WelcomeAgain", [](PsFrame* f) { f->set_kind(WELCOME); },
              "server 1 welcomes again to shard 1"},
        Wrong{"Kind", [](PsFrame* f) { f->set_kind(PUSH); }, "server 1 sent a frame of kind 4"}),
    [](const auto& row) { return row.param.name; });

TEST_F(ClientCoreTest, HalfAnElementIsOutOfTurn) {
  ClientCore& core = Welcomed({});
  std::vector<float> parameters(static_cast<size_t>(elements()));
  core.Pull(0, parameters);
  TakeAll();
  EXPECT_THAT(Say(Chunk(0, 0, 0, 0), "123456"), StatusIs(StatusCode::kInternal, ", 6 bytes at"));
}

TEST_F(ClientCoreTest, ParametersThatNobodyAskedForAreOutOfTurn) {
  ClientCore& core = Welcomed({});
  EXPECT_THAT(Reply(0, 0, 0, 1.0F), StatusIs(StatusCode::kInternal, "out of turn"));
  EXPECT_FALSE(core.torn());
}

TEST_F(ClientCoreTest, AReplyBeforeItsPullIsOutOfTurn) {
  ClientCore& core = Welcomed({});
  std::vector<float> parameters(static_cast<size_t>(elements()));
  core.Pull(0, parameters);
  EXPECT_THAT(Reply(0, 0, 0, 1.0F), StatusIs(StatusCode::kInternal, "out of turn"));
}

TEST_F(ClientCoreTest, TwoWelcomesForAShardAreOneTooMany) {
  ClientCore& core = Make({});
  core.Hello();
  TakeAll();
  ASSERT_THAT(Say(Header(WELCOME, 0)), IsOk());
  EXPECT_THAT(Say(Header(WELCOME, 0)),
              StatusIs(StatusCode::kInternal, "server 0 welcomes again to shard 0"));
}

TEST_F(ClientCoreTest, ARefusalKeepsItsCodeReasonAndBlame) {
  ClientCore& core = Welcomed({});
  std::vector<float> parameters(static_cast<size_t>(elements()));
  core.Pull(2, parameters);
  TakeAll();
  PsFrame refused;
  refused.set_kind(REFUSED);
  refused.set_code(static_cast<int>(StatusCode::kDeadlineExceeded));
  refused.set_reason("waited for worker 3");
  refused.add_blamed("worker 3");
  const absl::Status status = core.OnFrame(1, ReadFrame(refused, "").frame());
  EXPECT_THAT(status,
              StatusIs(StatusCode::kDeadlineExceeded, "server 1 refused: waited for worker 3"));
  EXPECT_THAT(BlamedBy(status), ElementsAre("worker 3"));
  EXPECT_EQ(core.Next(0), std::nullopt);
}

TEST_F(ClientCoreTest, ARefusalWithoutACodeIsStillAnError) {
  ClientCore& core = Welcomed({});
  PsFrame refused;
  refused.set_kind(REFUSED);
  EXPECT_THAT(core.OnFrame(0, ReadFrame(refused, "").frame()),
              StatusIs(StatusCode::kInternal, "server 0 refused: "));
}

}  // namespace
}  // namespace lockstep
