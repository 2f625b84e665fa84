#include "ps_server/wire/frame.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

Bytes View(const std::string& text) { return std::as_bytes(std::span(text.data(), text.size())); }

std::vector<Bytes> Cut(const std::string& text, const std::vector<size_t>& cuts) {
  std::vector<Bytes> slices;
  size_t at = 0;
  for (const size_t cut : cuts) {
    slices.push_back(View(text).subspan(at, cut - at));
    at = cut;
  }
  slices.push_back(View(text).subspan(at));
  return slices;
}

std::string Join(const std::vector<Bytes>& pieces) {
  std::string text;
  for (const Bytes piece : pieces) {
    text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return text;
}

PsFrame PushHeader() {
  PsFrame header;
  header.set_kind(PUSH);
  header.set_worker(3);
  header.set_incarnation(2);
  header.set_step(70'000);
  header.set_shard(1);
  header.set_offset(1 << 20);
  header.set_total(int64_t{1} << 33);
  header.set_epoch(9);
  return header;
}

PsFrame LargestHeader() {
  PsFrame header;
  header.set_kind(PARAMETERS);
  header.set_worker(-1);
  header.set_incarnation(-1);
  header.set_step(-1);
  header.set_shard(-1);
  header.set_version(-1);
  header.set_offset(-1);
  header.set_total(-1);
  header.set_epoch(-1);
  return header;
}

PsFrame HelloHeader() {
  PsFrame header;
  header.set_kind(HELLO);
  header.set_layout(~uint64_t{0});
  header.set_description("f32, 30 parameters");
  for (int64_t i = 0; i < 40; ++i) header.add_tensor_counts(i * 1'000);
  return header;
}

PsFrame PingHeader() {
  PsFrame header;
  header.set_kind(PING);
  header.set_incarnation(3);
  header.set_epoch(9);
  return header;
}

std::string Payload(size_t bytes) {
  std::string payload(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) payload[i] = static_cast<char>(i * 7 + 1);
  return payload;
}

struct Case {
  const char* name;
  PsFrame header;
  size_t payload_bytes;
};
void PrintTo(const Case& row, std::ostream* out) { *out << row.name; }

class FrameBytes : public testing::TestWithParam<Case> {
 protected:
  const PsFrame& header() const { return GetParam().header; }
  const std::string payload_ = Payload(GetParam().payload_bytes);
  const std::string bytes_ =
      EncodeHeader(header(), static_cast<int64_t>(payload_.size())) + payload_;
};

TEST_P(FrameBytes, AreProtobufsOwn) {
  PsFrame whole = header();
  whole.set_payload(payload_);
  EXPECT_EQ(bytes_, whole.SerializeAsString());
  PsFrame parsed;
  ASSERT_TRUE(parsed.ParseFromString(bytes_));
  EXPECT_EQ(parsed.payload(), payload_);
}

TEST_P(FrameBytes, DecodeWhereverTheyAreCut) {
  for (size_t cut = 0; cut <= bytes_.size(); ++cut) {
    const std::vector<Bytes> slices = Cut(bytes_, {cut / 2, cut});
    const absl::StatusOr<Frame> frame = DecodeFrame(slices);
    ASSERT_THAT(frame, IsOk()) << "cut at " << cut;
    EXPECT_EQ(frame->header.SerializeAsString(), header().SerializeAsString());
    EXPECT_EQ(Join(frame->payload), payload_);
    EXPECT_EQ(frame->payload_bytes, static_cast<int64_t>(payload_.size()));
  }
  std::vector<size_t> everywhere;
  for (size_t i = 0; i < bytes_.size(); ++i) everywhere.push_back(i);
  const std::vector<Bytes> slices = Cut(bytes_, everywhere);
  const absl::StatusOr<Frame> frame = DecodeFrame(slices);
  ASSERT_THAT(frame, IsOk());
  EXPECT_EQ(Join(frame->payload), payload_);
}

TEST_P(FrameBytes, TruncatedPayloadIsMalformed) {
  const std::string header_bytes = EncodeHeader(header(), static_cast<int64_t>(payload_.size()));
  for (size_t size = header_bytes.size(); size < bytes_.size(); ++size) {
    const std::string part = bytes_.substr(0, size);
    EXPECT_THAT(DecodeFrame(Cut(part, {})),
                StatusIs(absl::StatusCode::kInvalidArgument, "bytes follow its length"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, FrameBytes,
    testing::Values(Case{"Hello", HelloHeader(), 0}, Case{"PushOfOneFloat", PushHeader(), 4},
                    Case{"Push", PushHeader(), 300}, Case{"OddBytes", PushHeader(), 5},
                    Case{"NoPayload", PushHeader(), 0}, Case{"Empty", PsFrame(), 0},
                    Case{"Largest", LargestHeader(), 129}, Case{"Ping", PingHeader(), 0},
                    Case{"PingWithPayload", PingHeader(), 257}),
    [](const auto& row) { return row.param.name; });

TEST(Frame, HeadersKeepTheirBound) {
  EXPECT_LE(static_cast<int64_t>(EncodeHeader(LargestHeader(), INT32_MAX).size()),
            kFrameHeaderBytesMax);
}

TEST(Frame, RefusesWhatIsNoFrame) {
  const std::string frame = EncodeHeader(PushHeader(), 8) + Payload(8);
  const std::vector<std::string> rows = {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
                                         std::string(1, '\0'),
                                         "hello",
                                         frame + "x",
                                         frame + frame,
                                         std::string("\x7a"),
                                         std::string("\x7a\xff\xff\xff\xff\xff"),
                                         std::string("\x62\x05") + "abc",
                                         std::string("\x08")};
  for (const std::string& row : rows) {
    EXPECT_THAT(DecodeFrame(Cut(row, {})),
                StatusIs(absl::StatusCode::kInvalidArgument, "malformed frame of"))
        << testing::PrintToString(row);
  }
}

TEST(Frame, FieldsOfALaterProtocolAreSkipped) {
  const std::string later =
      std::string("\xa0\x06\x01") + EncodeHeader(PushHeader(), 4) + Payload(4);
  const absl::StatusOr<Frame> frame = DecodeFrame(Cut(later, {}));
  ASSERT_THAT(frame, IsOk());
  EXPECT_EQ(frame->header.step(), 70'000);
  EXPECT_EQ(frame->payload_bytes, 4);
}

TEST(Frame, NoiseNeverCrashes) {
  std::mt19937 random(3);
  const std::string frame = EncodeHeader(PushHeader(), 40) + Payload(40);
  for (int round = 0; round < 5'000; ++round) {
    std::string noise = frame;
    for (int flips = 0; flips < 3; ++flips) {
      noise[random() % noise.size()] = static_cast<char>(random());
    }
    const absl::StatusOr<Frame> decoded = DecodeFrame(Cut(noise, {random() % noise.size()}));
    if (decoded.ok()) {
      EXPECT_LE(decoded->payload_bytes, static_cast<int64_t>(noise.size()));
    }
  }
}

}  // namespace
}  // namespace lockstep
