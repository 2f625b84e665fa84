#include "experiments/coordinator/cuts.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

using testing::ElementsAre;

Saved Of(int shard, int64_t step) {
  Saved saved;
  saved.set_shard(shard);
  saved.set_version(step);
  saved.set_step(step);
  saved.set_bytes(100);
  saved.set_checksum("c0ffee");
  saved.set_path(absl::StrCat("shard-", shard, "-step-", step));
  return saved;
}

// As a reader of the manifest sees it: "shard@step" in its order.
std::vector<std::string> Lines(const Cuts& cuts) {
  std::vector<std::string> lines;
  std::istringstream text(cuts.Manifest());
  for (std::string line; std::getline(text, line);) {
    if (line[0] == '#') continue;
    MemberEvent event;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(line, &event)) << line;
    EXPECT_EQ(event.saved().path(),
              absl::StrCat("shard-", event.saved().shard(), "-step-", event.saved().step()));
    lines.push_back(absl::StrCat(event.saved().shard(), "@", event.saved().step()));
  }
  return lines;
}

TEST(CutsTest, OnlyWhatEveryShardHasSavedIsACut) {
  Cuts cuts(2);
  EXPECT_EQ(cuts.newest(), std::nullopt);
  EXPECT_FALSE(cuts.Add(Of(0, 0)));
  EXPECT_FALSE(cuts.Add(Of(0, 10)));
  EXPECT_EQ(cuts.newest(), std::nullopt);
  EXPECT_TRUE(cuts.Add(Of(1, 10)));
  EXPECT_EQ(cuts.newest(), 10);
  EXPECT_FALSE(cuts.Add(Of(1, 20)));
  EXPECT_EQ(cuts.newest(), 10);
  EXPECT_THAT(Lines(cuts), ElementsAre("0@10", "1@10"));
}

TEST(CutsTest, TheNewestAndTheOneBeforeAreKept) {
  Cuts cuts(2);
  for (const int64_t step : {0, 10, 20, 30}) {
    cuts.Add(Of(1, step));
    EXPECT_TRUE(cuts.Add(Of(0, step)));
  }
  EXPECT_THAT(Lines(cuts), ElementsAre("0@30", "1@30", "0@20", "1@20"));
  cuts.Spoil(30);
  EXPECT_EQ(cuts.newest(), 20);
  cuts.Spoil(20);
  EXPECT_EQ(cuts.newest(), std::nullopt);
}

// The steps are made again, and in ASYNC they come to something else.
TEST(CutsTest, WhatWasSavedOfStepsThatAreMadeAgainIsForgotten) {
  Cuts cuts(2);
  cuts.Add(Of(0, 10));
  cuts.Add(Of(1, 10));
  cuts.Add(Of(0, 20));
  cuts.RewindTo(10);
  EXPECT_FALSE(cuts.Add(Of(1, 20))) << "shard 0 has to save step 20 again";
  EXPECT_EQ(cuts.newest(), 10);
  EXPECT_TRUE(cuts.Add(Of(0, 20)));
}

TEST(CutsTest, ReportsOfAShardThatTheOthersDoNotMatchAreBounded) {
  Cuts cuts(2);
  cuts.Add(Of(0, 0));
  cuts.Add(Of(1, 0));
  for (int64_t step = 1; step <= 10'000; ++step) cuts.Add(Of(0, step));
  EXPECT_EQ(cuts.newest(), 0);
  EXPECT_FALSE(cuts.Add(Of(1, 1))) << "long forgotten";
  EXPECT_TRUE(cuts.Add(Of(1, 10'000)));
}

TEST(CutsTest, WhatCannotBeIsLeftOut) {
  Cuts cuts(1);
  EXPECT_FALSE(cuts.Add(Of(1, 10)));
  EXPECT_FALSE(cuts.Add(Of(-1, 10)));
  EXPECT_FALSE(cuts.Add(Of(0, -1)));
  EXPECT_EQ(cuts.newest(), std::nullopt);
}

}  // namespace
}  // namespace lockstep
