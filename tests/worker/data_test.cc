#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "worker/data/dataset.h"
#include "worker/data/digits.h"
#include "worker/data/gzip.h"

namespace lockstep {
namespace {

constexpr absl::StatusCode kDataLoss = absl::StatusCode::kDataLoss;

TEST(DigitsTest, TheBundledFileIsWhatItsSourcePageSays) {
  const absl::StatusOr<Dataset> digits = LoadDigits();
  ASSERT_THAT(digits, IsOk());
  EXPECT_EQ(digits->name, "digits");
  EXPECT_EQ(digits->samples, 1797);
  EXPECT_EQ(digits->features, 64);
  EXPECT_EQ(digits->classes, 10);
  ASSERT_EQ(digits->inputs.size(), 1797U * 64U);
  ASSERT_EQ(digits->labels.size(), 1797U);

  std::vector<int> labels(10);
  for (const int32_t label : digits->labels) ++labels.at(static_cast<size_t>(label));
  EXPECT_EQ(labels, (std::vector<int>{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}));

  double sum = 0;
  for (const float pixel : digits->inputs) {
    ASSERT_GE(pixel, 0.0F);
    ASSERT_LE(pixel, 1.0F);
    sum += static_cast<double>(pixel);
  }
  EXPECT_EQ(sum, 561718.0 / 16.0);
  // The first image's first row: 0,0,5,13,9,1,0,0 of 16.
  const std::vector<float> row(digits->inputs.begin(), digits->inputs.begin() + 8);
  EXPECT_EQ(row, (std::vector<float>{0, 0, 0.3125F, 0.8125F, 0.5625F, 0.0625F, 0, 0}));
}

std::string Line(const std::string& pixel, const std::string& label) {
  std::string line;
  for (int i = 0; i < 64; ++i) absl::StrAppend(&line, pixel, ",");
  return absl::StrCat(line, label, "\n");
}

TEST(DigitsTest, ErrorsNameLineAndField) {
  const std::string good = Line("16", "9");
  EXPECT_THAT(ParseDigits(good), IsOk());
  EXPECT_THAT(ParseDigits(""), StatusIs(kDataLoss, "no lines"));
  EXPECT_THAT(ParseDigits(good + "1,2,3\n"), StatusIs(kDataLoss, "line 2: 3 fields, expected 64"));
  EXPECT_THAT(ParseDigits(good + Line("17", "9")),
              StatusIs(kDataLoss, "line 2: field 1: '17' is not a whole number from 0 to 16"));
  EXPECT_THAT(ParseDigits(Line("x", "9")), StatusIs(kDataLoss, "field 1: 'x'"));
  EXPECT_THAT(ParseDigits(Line("0", "10")), StatusIs(kDataLoss, "field 65: '10'"));
  EXPECT_THAT(ParseDigits(Line("0", "-1")), StatusIs(kDataLoss, "field 65: '-1'"));
}

TEST(DatasetTest, OtherKindsAreRefused) {
  Data spec;
  EXPECT_THAT(LoadDataset(spec), StatusIs(absl::StatusCode::kInvalidArgument, "no kind"));
  spec.mutable_idx();
  EXPECT_THAT(LoadDataset(spec), StatusIs(absl::StatusCode::kUnimplemented, "data.idx"));
  spec.mutable_text();
  EXPECT_THAT(LoadDataset(spec), StatusIs(absl::StatusCode::kUnimplemented, "data.text"));
  spec.mutable_synthetic();
  EXPECT_THAT(LoadDataset(spec), StatusIs(absl::StatusCode::kUnimplemented, "data.synthetic"));
  spec.mutable_digits();
  EXPECT_THAT(LoadDataset(spec), IsOk());
}

TEST(DatasetTest, GatherTakesRowsInTheOrderOfTheIds) {
  const Dataset dataset = {.name = "tiny",
                           .samples = 3,
                           .features = 2,
                           .classes = 9,
                           .inputs = {0, 1, 10, 11, 20, 21},
                           .labels = {5, 6, 7}};
  Samples samples;
  Gather(dataset, std::vector<int64_t>{2, 0}, &samples);
  EXPECT_EQ(samples.inputs, (std::vector<float>{20, 21, 0, 1}));
  EXPECT_EQ(samples.labels, (std::vector<int32_t>{7, 5}));
  Gather(dataset, std::vector<int64_t>{1}, &samples);
  EXPECT_EQ(samples.labels, (std::vector<int32_t>{6}));
  EXPECT_DEATH(Gather(dataset, std::vector<int64_t>{3}, &samples), "id < dataset.samples");
}

std::string Gzip(std::string text) {
  std::string packed(text.size() + 100, '\0');
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  EXPECT_EQ(deflateEnd(&stream), Z_OK);
  return packed;
}

TEST(GzipTest, UnpacksUpToTheBoundAndRefusesMore) {
  const std::string text = "one line\nand another\n";
  const auto size = static_cast<int64_t>(text.size());
  const absl::StatusOr<std::string> exact = Gunzip(Gzip(text), size);
  ASSERT_THAT(exact, IsOk());
  EXPECT_EQ(*exact, text);
  EXPECT_THAT(Gunzip(Gzip(text), size - 1),
              StatusIs(absl::StatusCode::kResourceExhausted, "more than 20 bytes"));
}

TEST(GzipTest, DamageIsFound) {
  const std::string packed = Gzip("one line\nand another\n");
  EXPECT_THAT(Gunzip("plain text", 100), StatusIs(kDataLoss, "incorrect header"));
  EXPECT_THAT(Gunzip(packed.substr(0, packed.size() - 3), 100), StatusIs(kDataLoss, "too early"));
  EXPECT_THAT(Gunzip(packed + "x", 100), StatusIs(kDataLoss, "bytes after the end"));
  std::string flipped = packed;
  flipped[packed.size() - 6] =
      static_cast<char>(flipped[packed.size() - 6] ^ 1);  // in the checksum
  EXPECT_THAT(Gunzip(flipped, 100), StatusIs(kDataLoss, "incorrect data check"));
}

}  // namespace
}  // namespace lockstep
