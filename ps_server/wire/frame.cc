#include "ps_server/wire/frame.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr uint32_t kPayloadTag = WireFormatLite::MakeTag(PsFrame::kPayloadFieldNumber,
                                                         WireFormatLite::WIRETYPE_LENGTH_DELIMITED);

// Protobuf's view of a list of slices.
class SliceStream final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  explicit SliceStream(std::span<const Bytes> slices) : slices_(slices) {}

  bool Next(const void** data, int* size) override {
    while (slice_ < slices_.size() && at_ == slices_[slice_].size()) {
      ++slice_;
      at_ = 0;
    }
    if (slice_ == slices_.size()) return false;
    const Bytes rest = slices_[slice_].subspan(at_);
    const size_t taken =
        std::min(rest.size(), static_cast<size_t>(std::numeric_limits<int>::max()));
    *data = rest.data();
    *size = static_cast<int>(taken);
    at_ += taken;
    position_ += *size;
    return true;
  }
  void BackUp(int count) override {
    at_ -= static_cast<size_t>(count);
    position_ -= count;
  }
  bool Skip(int count) override {
    const void* data = nullptr;
    int size = 0;
    while (count > 0 && Next(&data, &size)) {
      if (size > count) BackUp(size - count);
      count -= std::min(size, count);
    }
    return count == 0;
  }
  int64_t ByteCount() const override { return position_; }

 private:
  std::span<const Bytes> slices_;
  size_t slice_ = 0;
  size_t at_ = 0;  // in slices_[slice_]
  int64_t position_ = 0;
};

absl::Status Malformed(const std::string& why, int64_t frame_bytes) {
  return absl::InvalidArgumentError(
      absl::StrCat("malformed frame of ", frame_bytes, " bytes: ", why));
}

struct Extent {
  int64_t header_bytes = 0;
  int64_t payload_bytes = 0;
};

// Walks over the top-level fields up to the payload; nothing, where the input ends without one.
absl::StatusOr<std::optional<Extent>> FindPayload(CodedInputStream* input, int64_t frame_bytes) {
  for (;;) {
    const int64_t start = input->CurrentPosition();
    const uint32_t tag = input->ReadTag();
    if (tag == 0) {
      if (!input->ConsumedEntireMessage()) return Malformed("not a PsFrame", frame_bytes);
      return std::optional<Extent>();
    }
    if (tag != kPayloadTag) {
      if (!WireFormatLite::SkipField(input, tag)) return Malformed("not a PsFrame", frame_bytes);
      continue;
    }
    uint32_t length = 0;
    if (!input->ReadVarint32(&length)) return Malformed("payload without length", frame_bytes);
    const int64_t rest = frame_bytes - input->CurrentPosition();
    if (rest != length) {
      return Malformed(
          absl::StrCat("payload of ", length, " bytes, but ", rest, " bytes follow its length"),
          frame_bytes);
    }
    return std::optional<Extent>(Extent{start, rest});
  }
}

// A header that lies in the first slice, as nearly all do: it is parsed where it is. False: it does
// not, or is none.
bool ParseInFirst(std::span<const Bytes> slices, int64_t frame_bytes, Frame* frame) {
  if (slices.empty()) return false;
  const auto* const first = reinterpret_cast<const uint8_t*>(slices.front().data());
  const auto size = static_cast<int>(slices.front().size());
  CodedInputStream input(first, size);
  const absl::StatusOr<std::optional<Extent>> found = FindPayload(&input, frame_bytes);
  if (!found.ok() || (!found->has_value() && size != frame_bytes)) return false;
  const Extent extent = found->value_or(Extent{frame_bytes, 0});
  frame->payload_bytes = extent.payload_bytes;
  return frame->header.ParseFromArray(first, static_cast<int>(extent.header_bytes));
}

absl::Status ParseAnywhere(std::span<const Bytes> slices, int64_t frame_bytes, Frame* frame) {
  SliceStream walk(slices);
  CodedInputStream walked(&walk);
  ASSIGN_OR_RETURN(const std::optional<Extent> found, FindPayload(&walked, frame_bytes));
  const Extent extent = found.value_or(Extent{frame_bytes, 0});
  SliceStream stream(slices);
  CodedInputStream input(&stream);
  input.PushLimit(static_cast<int>(extent.header_bytes));
  if (!frame->header.ParseFromCodedStream(&input) || !input.ConsumedEntireMessage()) {
    return Malformed("not a PsFrame", frame_bytes);
  }
  frame->payload_bytes = extent.payload_bytes;
  return absl::OkStatus();
}

// All of `slices` but the first `skipped` bytes.
std::vector<Bytes> Tail(std::span<const Bytes> slices, int64_t skipped) {
  std::vector<Bytes> tail;
  for (const Bytes slice : slices) {
    const auto size = static_cast<int64_t>(slice.size());
    if (skipped < size) tail.push_back(slice.subspan(static_cast<size_t>(skipped)));
    skipped = std::max<int64_t>(0, skipped - size);
  }
  return tail;
}

}  // namespace

std::string EncodeHeader(const PsFrame& header, int64_t payload_bytes) {
  CHECK(header.payload().empty()) << "the payload goes beside the header";
  std::string bytes = header.SerializeAsString();
  if (payload_bytes == 0) return bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream output(&stream);
  output.WriteTag(kPayloadTag);
  output.WriteVarint32(static_cast<uint32_t>(payload_bytes));
  output.Trim();
  return bytes;
}

absl::StatusOr<Frame> DecodeFrame(std::span<const Bytes> slices) {
  int64_t frame_bytes = 0;
  for (const Bytes slice : slices) frame_bytes += static_cast<int64_t>(slice.size());
  if (frame_bytes > std::numeric_limits<int>::max()) return Malformed("too large", frame_bytes);
  Frame frame;
  if (!ParseInFirst(slices, frame_bytes, &frame)) {
    RETURN_IF_ERROR(ParseAnywhere(slices, frame_bytes, &frame));
  }
  if (frame.payload_bytes > 0) frame.payload = Tail(slices, frame_bytes - frame.payload_bytes);
  return frame;
}

}  // namespace lockstep
