#include "experiments/report/addition_order.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

TEST(ReadAdditionOrderTest, CountsTheElementsOfEachTree) {
  const std::vector<AdditionShare> shares =
      ReadAdditionOrder("bucket 0: 0-9: g0+(g1+g2); 10-18: (g0+g1)+g2\nbucket 1: 0-0: g0+(g1+g2)");
  ASSERT_EQ(shares.size(), 2U);
  EXPECT_EQ(shares[0].tree, "g0+(g1+g2)");
  EXPECT_EQ(shares[0].elements, 11);
  EXPECT_EQ(shares[1].tree, "(g0+g1)+g2");
  EXPECT_EQ(shares[1].elements, 9);
}

TEST(ReadAdditionOrderTest, OtherTextsGiveNothing) {
  for (const char* text :
       {"", "EXACT", "xxh3:0123, 32 ranks, 300 runs", "9-0: g0", "a-b: g0", "0-9: g0; then what",
        "-1-2: g0", "bucket 0: 0-9: g0\n... (cut; fingerprint of the whole: 0123)"}) {
    EXPECT_THAT(ReadAdditionOrder(text), testing::IsEmpty()) << text;
  }
}

// The values of CASES R25: only the order decides what is left of them.
struct Sum {
  const char* tree;
  float f32;
};
class AddInOrderTest : public testing::TestWithParam<Sum> {};
TEST_P(AddInOrderTest, RoundsAfterEachAddition) {
  EXPECT_EQ(AddInOrder(GetParam().tree, {1e8F, 1, -1e8F, 1}), GetParam().f32);
}
INSTANTIATE_TEST_SUITE_P(Trees, AddInOrderTest,
                         testing::Values(Sum{"((g0+g1)+g2)+g3", 1}, Sum{"(g0+g1)+(g2+g3)", 0},
                                         Sum{"(g0+g2)+(g1+g3)", 2}, Sum{"g0+((g1+g2)+g3)", 0},
                                         Sum{"((g0+g3)+g2)+g1", 1}, Sum{"g1", 1}));

TEST(AddInOrderTest, WhatIsNoTreeHasNoSum) {
  const std::vector<float> values = {1, 2};
  for (const std::string& tree :
       {std::string(), std::string("g2"), std::string("g0+"), std::string("(g0+g1"),
        std::string("g0+g1)"), std::string("g0-g1"), std::string("g"), std::string("g0g1"),
        std::string("()"), std::string("(+g0)"), std::string("g0+g1+g0"), std::string(5000, '(')}) {
    EXPECT_EQ(AddInOrder(tree, values), std::nullopt) << tree.substr(0, 20);
  }
}

}  // namespace
}  // namespace lockstep
