#include "base/byte_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;

TEST(ParseBytesTest, SizesHaveUnits) {
  EXPECT_EQ(*ParseBytes("4"), 4);
  EXPECT_EQ(*ParseBytes("4B"), 4);
  EXPECT_EQ(*ParseBytes("16KiB"), 16 << 10);
  EXPECT_EQ(*ParseBytes("64MiB"), 64 << 20);
  EXPECT_EQ(*ParseBytes("2GiB"), int64_t{2} << 30);
  EXPECT_EQ(*ParseBytes("1MB"), 1'000'000);
  for (const char* text : {"", "KiB", "4kb", "-4", "9999999999GiB", "5GiB", "4..8"}) {
    EXPECT_THAT(ParseBytes(text), StatusIs(absl::StatusCode::kInvalidArgument, "is no size"))
        << text;
  }
}

TEST(ParseSizesTest, RangesAndLists) {
  EXPECT_THAT(*ParseSizes("4:64:4"), ElementsAre(4, 16, 64));
  EXPECT_THAT(*ParseSizes("4:100:4"), ElementsAre(4, 16, 64));
  EXPECT_THAT(*ParseSizes("1KiB:4KiB:2"), ElementsAre(1024, 2048, 4096));
  EXPECT_THAT(*ParseSizes("2:4:1.1"), ElementsAre(2, 3, 4));  // a small factor moves on
  EXPECT_THAT(*ParseSizes("1MB,4,1MiB"), ElementsAre(4, 1'000'000, 1 << 20));
  EXPECT_THAT(*ParseSizes("8:8:2"), ElementsAre(8));
}

class BadSizesTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, BadSizesTest,
                         testing::Values("", "4:64", "64:4:2", "4:64:1", "4:64:0", "0:4:2", "x",
                                         "4KX", "-4", "4:64:nan", "9999999GiB", "1.5MiB"));
TEST_P(BadSizesTest, AreRefused) {
  EXPECT_THAT(ParseSizes(GetParam()), StatusIs(absl::StatusCode::kInvalidArgument, "'"));
}

TEST(BytesTextTest, UnitsOnlyWhereExact) {
  EXPECT_EQ(BytesText(4), "4 B");
  EXPECT_EQ(BytesText(4096), "4 KiB");
  EXPECT_EQ(BytesText(1000), "1000 B");
  EXPECT_EQ(BytesText(int64_t{64} << 20), "64 MiB");
}

}  // namespace
}  // namespace lockstep
