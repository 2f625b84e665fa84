#include <gtest/gtest.h>

#include <algorithm>

#include "tests/experiments/spec/spec_support.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

struct UnusedCase {
  const char* name;
  std::vector<std::string> set;
  std::vector<std::string> notes;
};
void PrintTo(const UnusedCase& unused, std::ostream* out) { *out << unused.name; }
class UnusedSettingTest : public testing::TestWithParam<UnusedCase> {};

TEST_P(UnusedSettingTest, IsNamedInANote) {
  const LoadedSpec spec = Load(ValidSpec(), GetParam().set);
  ASSERT_THAT(spec.status(), IsOk());
  ASSERT_EQ(spec.notes.size(), GetParam().notes.size());
  for (size_t i = 0; i < spec.notes.size(); ++i) {
    EXPECT_THAT(spec.notes[i].ToString(), testing::HasSubstr(GetParam().notes[i]));
  }
}
const char* const kOnlyNone = "variant={ name: \"none\" none {} }";
const UnusedCase kUnused[] = {
    {"AllUsed", {"bucket_cap_mb=1", "limits.window_chunks=4", "probe.every=5"}, {}},
    {"NothingSynchronises",
     {kOnlyNone, "bucket_cap_mb=1", "reduce_op=SUM", "limits.chunk_bytes=128", "overlap=false",
      "wire_dtype=F16", "reduction_order=EXACT"},
     {"--set bucket_cap_mb=1, character 15: bucket_cap_mb changes nothing: no variant synchronises",
      "--set reduce_op=SUM", "--set limits.chunk_bytes=128", "overlap changes",
      "wire_dtype changes", "reduction_order changes nothing: no variant synchronises"}},
    {"NothingSums",
     {"variant={ name: \"async\" ps { mode: ASYNC } }", "reduce_op=SUM"},
     {"reduce_op changes nothing: no variant sums over the workers"}},
    {"ExactBesideAsync",
     {"variant[ps].ps={ mode: ASYNC }", "reduction_order=EXACT"},
     {"--set reduction_order=EXACT, character 17: reduction_order: EXACT changes nothing for "
      "variant "
      "ps: it applies each gradient alone"}},
    {"RateOfOneWorker",
     {"workers=1", "variant[ps].ps={ mode: ASYNC rate: FULL }"},
     {"variant[1].ps.rate changes nothing: with one worker"}},
    {"OneOfTwoSizesExchanges", {"workers=[1, 2]", "broadcast_start=false"}, {}},
    {"OneWorkerAndARankThatSums",
     {"workers=1", "variant[ring].all_reduce={ algorithm: PS_EXCHANGE channels: 2 }"},
     {}},
    {"NoServer",
     {"variant={ name: \"ring\" all_reduce {} }", "limits.window_chunks=4",
      "limits.staged_bytes_max=99"},
     {"limits.window_chunks changes nothing: no variant has a parameter server",
      "limits.staged_bytes_max"}},
    {"NoGpu",
     {"limits.device_timeout_ms=700"},
     {"limits.device_timeout_ms changes nothing: no worker computes on a GPU"}},
    {"Gpus", {"device=GPU", "limits.device_timeout_ms=700"}, {}},
    {"GpusOfSome", {"mixed_devices=true", "limits.device_timeout_ms=700"}, {}},
    {"ProbeBehindTheEnd", {"probe.every=61"}, {"probe.every changes nothing"}},
    {"SnapshotsTooLarge",
     {"probe.keep_snapshots=true", "limits.snapshot_bytes_max=100"},
     {"probe.keep_snapshots"}},
    {"OneWorker",
     {"workers=1", "variant[ring].all_reduce.channels=2"},
     {"one worker exchanges nothing"}},
};
INSTANTIATE_TEST_SUITE_P(Settings, UnusedSettingTest, testing::ValuesIn(kUnused),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(QuickTest, OneBlockAndFewSteps) {
  const SpecText text{.display_name = "t", .text = ValidSpec()};
  const LoadedSpec quick = LoadSpec(text, {.quick = true});
  EXPECT_EQ(quick.experiment.blocks(), 1);
  EXPECT_EQ(quick.experiment.train().steps(), 20);
  const LoadedSpec shorter =
      LoadSpec(text, {.set = {"train.steps=7"}, .blocks = "2", .quick = true});
  EXPECT_EQ(shorter.experiment.blocks(), 2);
  EXPECT_EQ(shorter.experiment.train().steps(), 7);
}

TEST(QuickTest, AFaultBehindItsEndIsRefused) {
  const SpecText text{
      .display_name = "t",
      .text = ValidSpec() + "fault { at { step: 21 } target: \"worker:0\" kind: NAN_GRADIENT }\n"};
  EXPECT_THAT(LoadSpec(text, {}).status(), IsOk());
  ExpectErrors(LoadSpec(text, {.quick = true}),
               {{9, {"fault[0].at.step: 21 is behind the last step, 20"}}});
}

TEST(OnlyTest, TheOthersAreAsIfNotWritten) {
  const SpecText text{.display_name = "t", .text = ValidSpec()};
  const LoadedSpec ring = LoadSpec(text, {.set = {"wire_dtype=BF16"}, .only = {"ring", "none"}});
  ASSERT_THAT(ring.status(), IsOk()) << "nothing speaks with the server that is left out";
  ASSERT_EQ(ring.experiment.variant_size(), 2);
  EXPECT_EQ(ring.experiment.variant(0).name(), "none");
  EXPECT_EQ(ring.experiment.variant(1).name(), "ring");
}

TEST(OnlyTest, WhatTheOthersReadIsNotNoted) {
  const SpecText text{.display_name = "t", .text = ValidSpec() + "bucket_cap_mb: 1\n"};
  EXPECT_THAT(LoadSpec(text, {.only = {"none"}}).notes, testing::IsEmpty());
}

TEST(OnlyTest, PlacesStayThoseOfTheText) {
  const SpecText text{.display_name = "t",
                      .text = ValidSpec() + "variant { name: \"k\" ps { k: 2 } }\n"};
  ExpectErrors(LoadSpec(text, {.only = {"k"}}), {{9, {"t:9:26: variant[0].ps.k: conflicts with"}}});
  EXPECT_THAT(LoadSpec(text, {.only = {"ps"}}).status(), IsOk());
}

TEST(OnlyTest, AnUnknownNameListsTheKnown) {
  const SpecText text{.display_name = "t", .text = ValidSpec()};
  ExpectErrors(LoadSpec(text, {.only = {"ring", "rink"}}),
               {{0, {"--only rink: the spec has no such variant; it has none, ps, ring"}}});
}

TEST(QuickTest, HidesNoError) {
  const LoadedSpec spec =
      LoadSpec({.display_name = "t", .text = ValidSpec()},
               {.set = {"train.steps=99999999"}, .blocks = "many", .quick = true});
  ExpectErrors(spec,
               {{0, {"--set train.steps=99999999", "out of range"}},
                {0, {"--blocks many, character 1: blocks: expected a whole number", "got many"}}});
}

}  // namespace
}  // namespace lockstep
