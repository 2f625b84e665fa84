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
     {kOnlyNone, "bucket_cap_mb=1", "reduce_op=SUM", "limits.chunk_bytes=128"},
     {"--set bucket_cap_mb=1, character 15: bucket_cap_mb changes nothing: no variant synchronises",
      "--set reduce_op=SUM", "--set limits.chunk_bytes=128"}},
    {"NoServer",
     {"variant={ name: \"ring\" all_reduce {} }", "limits.window_chunks=4",
      "limits.staged_bytes_max=99"},
     {"limits.window_chunks changes nothing: no variant has a parameter server",
      "limits.staged_bytes_max"}},
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
  const LoadedSpec quick = LoadSpec(text, {.set = {}, .blocks = {}, .quick = true});
  EXPECT_EQ(quick.experiment.blocks(), 1);
  EXPECT_EQ(quick.experiment.train().steps(), 20);
  const LoadedSpec shorter =
      LoadSpec(text, {.set = {"train.steps=7"}, .blocks = "2", .quick = true});
  EXPECT_EQ(shorter.experiment.blocks(), 2);
  EXPECT_EQ(shorter.experiment.train().steps(), 7);
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
