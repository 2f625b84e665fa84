// Frames about rows of a table, at a server: what is refused and counted, what is answered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/ps_server/exchange_fixture.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// Tensor 0 is a table of 5 rows of 2, tensor 1 is none and has 6 elements.
class ExchangeRowsTest : public ExchangeTest {
 protected:
  void SetUp() override {
    world_size_ = 1;
    ASSERT_THAT(exchange_.Configure(Config(world_size_, mode_)), IsOk());
    Admit(10);
    std::vector<float> start(kCount);
    for (size_t i = 0; i < start.size(); ++i) start[i] = static_cast<float>(i);
    Send(10, Data(INIT, 0, 0, start));
  }
  void Admit(int64_t stream) {
    PsLayout layout = Layout();
    layout.row_elements = {2, 0};
    exchange_.Opened(stream, "");
    Send(stream, Hello(0, layout));
    ASSERT_THAT(Out(stream), SizeIs(1));
  }
  static PsFrame Rows(PsKind kind, int64_t step, const std::vector<int64_t>& rows, bool last,
                      const std::vector<float>& values = {}) {
    PsFrame frame = Header(kind, 0);
    frame.set_step(step);
    for (const int64_t row : rows) frame.mutable_rows()->add_row(row);
    frame.mutable_rows()->set_last(last);
    frame.set_payload(values.data(), values.size() * 4);
    return frame;
  }
  // As a worker does: the payload is the last field.
  void SendRows(int64_t stream, PsFrame frame) {
    const std::string payload = std::move(*frame.mutable_payload());
    frame.clear_payload();
    SendBytes(stream, EncodeHeader(frame, static_cast<int64_t>(payload.size())) + payload);
  }
  std::vector<float> ReplyOn(int64_t stream) {
    const std::vector<Outgoing> out = Out(stream);
    if (out.size() != 1 || out[0].header.kind() != PARAMETERS) {
      ADD_FAILURE() << out.size() << " frames";
      return {};
    }
    EXPECT_TRUE(out[0].header.has_rows());
    EXPECT_EQ(out[0].header.total() * 4, out[0].payload.bytes);
    Transmit(out[0], out[0].payload.bytes);
    return Values(out[0]);
  }
};

TEST_F(ExchangeRowsTest, RowsComeBackInTheOrderOfTheirNumbers) {
  SendRows(10, Rows(PULL, 0, {0, 2}, false));
  EXPECT_THAT(Out(10), IsEmpty());
  SendRows(10, Rows(PULL, 0, {4}, true));
  EXPECT_THAT(ReplyOn(10), ElementsAre(0, 1, 4, 5, 8, 9));
  SendRows(10, Rows(PULL, 0, {}, true));
  EXPECT_THAT(ReplyOn(10), IsEmpty());
  EXPECT_EQ(exchange_.counters().rows_pulled, 3);
}

TEST_F(ExchangeRowsTest, AStepIsTheRowsAndTheOtherTensors) {
  SendRows(10, Rows(PUSH, 1, {1, 3}, true, {10, 10, 20, 20}));
  SendRows(10, Rows(PULL, 1, {1, 2, 3}, true));
  EXPECT_THAT(Out(10), IsEmpty()) << "the other tensor is not pushed yet";
  PsFrame rest = Data(PUSH, 0, 1, {0, 0, 0, 0, 0, 0});
  rest.set_offset(10);
  Send(10, rest);
  EXPECT_THAT(ReplyOn(10), ElementsAre(2 - 1, 3 - 1, 4, 5, 6 - 2, 7 - 2));
  EXPECT_THAT(updates_, SizeIs(1));
  SendRows(10, Rows(PUSH, 1, {1, 3}, true, {10, 10, 20, 20}));
  SendRows(10, Rows(PULL, 1, {1, 2, 3}, true));
  EXPECT_THAT(ReplyOn(10), ElementsAre(2 - 1, 3 - 1, 4, 5, 6 - 2, 7 - 2));
  EXPECT_EQ(exchange_.counters().duplicates, 1);
  EXPECT_EQ(exchange_.counters().rows_pushed, 2);
}

TEST_F(ExchangeRowsTest, ANewPullTakesThePlaceOfAnUnfinishedOne) {
  SendRows(10, Rows(PULL, 0, {3}, false));
  PsFrame whole = Pull(0, 0);
  Send(10, whole);
  const std::vector<Outgoing> out = Out(10);
  ASSERT_THAT(out, SizeIs(1));
  EXPECT_FALSE(out[0].header.has_rows());
  EXPECT_EQ(out[0].header.total(), kCount);
}

TEST_F(ExchangeRowsTest, MalformedFramesAreRefusedAndCounted) {
  PsFrame other = Rows(PUSH, 1, {0}, true, {1, 1});
  other.mutable_rows()->set_tensor(1);
  PsFrame strange = other;
  strange.mutable_rows()->set_tensor(-7);
  const std::vector<std::pair<PsFrame, std::string>> frames = {
      {Rows(PUSH, 1, {5}, true, {1, 1}), "row 5 of table 0 is not in [0, 5)"},
      {Rows(PUSH, 1, {-1}, true, {1, 1}), "row -1 of table 0 is not in [0, 5)"},
      {Rows(PUSH, 1, {int64_t{1} << 62}, true, {1, 1}), "is not in [0, 5)"},
      {Rows(PUSH, 1, {2, 2}, true, {1, 1, 1, 1}), "row 2 of table 0 comes twice"},
      {Rows(PUSH, 1, {2, 1}, true, {1, 1, 1, 1}), "row 1 of table 0 comes after row 2"},
      {Rows(PUSH, 1, {1, 2}, true, {1, 1, 1}), "2 rows of table 0 come with 12 bytes, expected 8"},
      {Rows(PUSH, 1, {1}, true, {1, 1, 1, 1}), "1 rows of table 0 come with 16 bytes"},
      {Rows(PUSH, 1, {1}, true), "1 rows of table 0 come with 0 bytes"},
      {Rows(PUSH, 1, {}, false), "names no rows"},
      {other, "the shard has no rows of tensor 1"},
      {strange, "the shard has no rows of tensor -7"},
      {Rows(PULL, 0, {5}, true), "row 5 of table 0 is not in [0, 5)"},
      {Rows(PULL, 0, {3, 3}, true), "row 3 of table 0 comes twice"},
      {Rows(PULL, 0, {3}, true, {1, 1}), "1 rows of table 0 come with 8 bytes, expected 0"},
      {Rows(PULL, 0, {}, false), "names no rows"},
  };
  int64_t stream = 10;
  for (size_t i = 0; i < frames.size(); ++i) {
    SCOPED_TRACE(frames[i].second);
    SendRows(stream, frames[i].first);
    EXPECT_THAT(RefusalOn(stream), StatusIs(StatusCode::kInvalidArgument, frames[i].second));
    EXPECT_EQ(exchange_.counters().malformed_frames, static_cast<int64_t>(i) + 1);
    EXPECT_EQ(exchange_.counters().refused_streams, static_cast<int64_t>(i) + 1);
    exchange_.Closed(stream++);
    Admit(stream);
  }
  // Order holds from one frame of a pull to the next.
  SendRows(stream, Rows(PULL, 0, {1, 3}, false));
  SendRows(stream, Rows(PULL, 0, {2}, true));
  EXPECT_THAT(RefusalOn(stream),
              StatusIs(StatusCode::kInvalidArgument, "pulls row 2 of table 0 after row 3"));
  EXPECT_EQ(exchange_.counters().malformed_frames, static_cast<int64_t>(frames.size()) + 1);
  exchange_.Closed(stream++);
  // The server lives.
  Admit(stream);
  SendRows(stream, Rows(PULL, 0, {2}, true));
  EXPECT_THAT(ReplyOn(stream), ElementsAre(4, 5));
}

TEST_F(ExchangeRowsTest, TablesThatDifferAreNamed) {
  PsLayout layout = Layout();
  layout.row_elements = {5, 0};
  exchange_.Opened(11, "");
  Send(11, Hello(0, layout, 2));
  EXPECT_THAT(RefusalOn(11), StatusIs(StatusCode::kInvalidArgument, "its tables have other rows"));
  exchange_.Opened(12, "");
  layout.row_elements = {};
  PsFrame hello = Hello(0, layout, 2);
  hello.add_row_elements(2);
  Send(12, hello);
  EXPECT_THAT(RefusalOn(12), StatusIs(StatusCode::kInvalidArgument, "disagree"));
}

}  // namespace
}  // namespace lockstep
