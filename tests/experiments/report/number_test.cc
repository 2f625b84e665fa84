#include "experiments/report/number.h"

#include <gmock/gmock.h>

#include <limits>
#include <string>

#include "absl/strings/str_replace.h"

namespace lockstep {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Case {
  std::string (*format)(double);
  double value;
  const char* text;  // with plain spaces where the page has no-break ones
};

class NumberTest : public testing::TestWithParam<Case> {};

TEST_P(NumberTest, ReadsAs) {
  const std::string text = GetParam().format(GetParam().value);
  EXPECT_EQ(absl::StrReplaceAll(text, {{"\u00a0", " "}}), GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    Count, NumberTest,
    testing::Values(Case{FormatCount, 0, "0"}, Case{FormatCount, 999, "999"},
                    Case{FormatCount, 1000, "1,000"}, Case{FormatCount, 12345.6, "12,346"},
                    Case{FormatCount, 9007199254740991, "9,007,199,254,740,991"},
                    Case{FormatCount, -1234, "−1,234"}, Case{FormatCount, -0.2, "0"},
                    Case{FormatCount, kNan, "–"}));
INSTANTIATE_TEST_SUITE_P(
    Value, NumberTest,
    testing::Values(Case{FormatValue, 0, "0"}, Case{FormatValue, 0.02134, "0.0213"},
                    Case{FormatValue, 3.14159, "3.14"}, Case{FormatValue, 12.34, "12.3"},
                    Case{FormatValue, 99.96, "100"}, Case{FormatValue, 9.996, "10.0"},
                    Case{FormatValue, 0.9999, "1.00"}, Case{FormatValue, 432.4, "432"},
                    Case{FormatValue, 1185.2, "1,185"}, Case{FormatValue, -2.5, "−2.50"},
                    Case{FormatValue, 2.14e-7, "2.14e-07"}, Case{FormatValue, kInfinity, "–"}));
INSTANTIATE_TEST_SUITE_P(
    Units, NumberTest,
    testing::Values(Case{FormatMilliseconds, 432000, "432"}, Case{FormatMilliseconds, 5930, "5.93"},
                    Case{FormatBytes, 0, "0 B"}, Case{FormatBytes, 999, "999 B"},
                    Case{FormatBytes, 510012, "0.510 MB"}, Case{FormatBytes, 12345678, "12.3 MB"},
                    Case{FormatBytes, 1500, "0.00150 MB"}, Case{FormatBytes, 1.64e9, "1,640 MB"},
                    Case{FormatShare, 0.3418, "34 %"}, Case{FormatShare, 0.999, "100 %"},
                    Case{FormatShare, 0.00384, "0.38 %"},
                    Case{FormatSignedShare, 0.0024, "+0.24 %"},
                    Case{FormatSignedShare, -0.0125, "−1.25 %"},
                    Case{FormatSignedShare, 0.00001, "0 %"}, Case{FormatDuration, 54.2, "54.2 s"},
                    Case{FormatDuration, 83.4, "1 min 23 s"}, Case{FormatDuration, 59.99, "60.0 s"},
                    Case{FormatDuration, -1, "–"}));

// Printed parts must add up to the printed whole, which rounding each alone does not give.
TEST(StackTest, PartsAddUpToTheWhole) {
  EXPECT_THAT(FormatStackMilliseconds({5880, 2114.6, 1215.4}),
              testing::ElementsAre("5.88", "2.11", "1.22", "9.21"));
  EXPECT_THAT(FormatStackMilliseconds({333.4, 333.4, 333.4}),
              testing::ElementsAre("0.33", "0.34", "0.33", "1.00"));
  EXPECT_THAT(FormatStackMilliseconds({1200e3, 34.4e3, 0.4e3}),
              testing::ElementsAre("1,200", "34", "1", "1,235"));
  EXPECT_THAT(FormatStackMilliseconds({0, 0, 0}), testing::ElementsAre("0", "0", "0", "0"));
  EXPECT_THAT(FormatStackMilliseconds({kNan, 1}), testing::ElementsAre("–", "–", "–"));
}

}  // namespace
}  // namespace lockstep
