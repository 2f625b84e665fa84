#include "experiments/report/html.h"

#include <gmock/gmock.h>

#include <string>

#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

TEST(EscapeTest, LeavesNothingThatHtmlReads) {
  EXPECT_EQ(Escape("<b a=\"1\" c='2'>&amp;</b>"),
            "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;&lt;/b&gt;");
  EXPECT_EQ(Escape("参数 ×1 – ✓"), "参数 ×1 – ✓");
}

TEST(EscapeTest, ControlCharactersBecomeReplacements) {
  EXPECT_EQ(Escape(std::string("a\0b\x1b[1m\x7f", 8)), "a\ufffdb\ufffd[1m\ufffd");
  EXPECT_EQ(Escape("a\n\tb"), "a\n\tb");
}

TEST(JsonForScriptTest, CannotEndItsElement) {
  EXPECT_EQ(JsonForScript("{\"a\": \"</script><!--\"}"), "{\"a\": \"\\u003c/script>\\u003c!--\"}");
}

TEST(FillSlotsTest, ReplacesByPosition) {
  const auto page = FillSlots("<h1>@@HEAD@@</h1>@@BODY@@@@HEAD@@.", {{"HEAD", "x"}, {"BODY", "y"}});
  ASSERT_THAT(page, IsOk());
  EXPECT_EQ(*page, "<h1>x</h1>yx.");
}

TEST(FillSlotsTest, NeverLooksAtInsertedText) {
  const auto page =
      FillSlots("@@HEAD@@|@@BODY@@", {{"HEAD", "@@BODY@@ $& \\1"}, {"BODY", "@@HEAD@@"}});
  ASSERT_THAT(page, IsOk());
  EXPECT_EQ(*page, "@@BODY@@ $& \\1|@@HEAD@@");
}

// A slot's name must not grow out of an inserted text and the page around it either.
TEST(FillSlotsTest, InsertedTextDoesNotJoinThePage) {
  const auto page = FillSlots("@@HEAD@@@@BODY@@", {{"HEAD", "@@BO"}, {"BODY", "DY@@"}});
  ASSERT_THAT(page, IsOk());
  EXPECT_EQ(*page, "@@BODY@@");
}

TEST(FillSlotsTest, OtherFencesStay) {
  const auto page = FillSlots("a@@b @@@@ @@x y@@HEAD@@ @@", {{"HEAD", "1"}});
  ASSERT_THAT(page, IsOk());
  EXPECT_EQ(*page, "a@@b @@@@ @@x y1 @@");
}

TEST(FillSlotsTest, PageAndSlotsMustFit) {
  EXPECT_THAT(FillSlots("@@HEAD@@ @@FOOT@@", {{"HEAD", ""}}),
              StatusIs(absl::StatusCode::kInternal, "unknown slot @@FOOT@@"));
  EXPECT_THAT(FillSlots("@@HEAD@@", {{"HEAD", ""}, {"BODY", ""}}),
              StatusIs(absl::StatusCode::kInternal, "lacks slot @@BODY@@"));
}

}  // namespace
}  // namespace lockstep
