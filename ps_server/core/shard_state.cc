#include "ps_server/core/shard_state.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/fingerprint.h"
#include "base/status.h"

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little, "states are written as they are");

using Bytes = std::span<const std::byte>;

constexpr std::array<char, 8> kMagic = {'l', 'o', 'c', 'k', 's', 't', 'e', 'p'};
constexpr uint32_t kFormat = 3;  // 2: SGD without momentum kept a value of each element
constexpr uint64_t kElementsMax = uint64_t{1} << 36;
constexpr uint64_t kWorkersMax = uint64_t{1} << 20;

// Every field has its place, so that two encodings of one state are the same bytes.
struct Header {
  std::array<char, 8> magic = kMagic;
  uint32_t format = kFormat;
  int32_t shard = 0;
  int64_t offset = 0;
  uint64_t layout = 0;
  int64_t version = 0;
  int64_t round = 0;
  int64_t previous_version = 0;
  int64_t previous_step = 0;
  uint64_t workers = 0;
  uint64_t staleness = 0;
  uint64_t parameters = 0;  // elements
  uint64_t previous = 0;
  uint64_t optimizer = 0;
  std::array<char, 32> body = {};  // XXH3-128, hex
  uint64_t self = 0;               // XXH3-64 of all fields before it
};
static_assert(sizeof(Header) == 144, "no padding, whose bytes nobody sets");

struct EncodedMark {
  int64_t incarnation = 0;
  int64_t last_step = 0;
  int64_t dropped = 0;
  int64_t rejected = 0;
};
static_assert(sizeof(StalenessMark) == 24, "written as it is");

uint64_t SelfOf(const Header& header) {
  return Fingerprint64(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, self)));
}

// REQUIRES: the sizes have been checked.
uint64_t BodyBytes(const Header& header) {
  return header.workers * sizeof(EncodedMark) + header.staleness * sizeof(StalenessMark) +
         (header.parameters + header.previous + header.optimizer) * sizeof(float);
}

template <typename T>
void Append(const T& value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(T));
}

// Takes values off the front. REQUIRES: they are there.
template <typename T>
std::vector<T> Take(uint64_t count, Bytes* bytes) {
  std::vector<T> values(count);
  const size_t size = count * sizeof(T);
  if (size > 0) std::memcpy(values.data(), bytes->data(), size);
  *bytes = bytes->subspan(size);
  return values;
}

absl::Status CheckHeader(const Header& header, size_t bytes) {
  if (header.magic != kMagic) return absl::DataLossError("not the state of a shard");
  if (header.format != kFormat) {
    return absl::InvalidArgumentError(absl::StrCat("the state of a shard in format ", header.format,
                                                   "; this program reads format ", kFormat));
  }
  if (header.self != SelfOf(header)) {
    return absl::DataLossError("the state of a shard is damaged: its header is not what it was");
  }
  const bool sane = header.workers <= kWorkersMax && header.staleness <= kWorkersMax &&
                    header.parameters <= kElementsMax && header.previous <= kElementsMax &&
                    header.optimizer <= 2 * kElementsMax;
  if (!sane) return absl::DataLossError("the state of a shard has sizes that no shard has");
  const uint64_t expected = sizeof(Header) + BodyBytes(header);
  if (bytes == expected) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the state of a shard is ",
                                          bytes < expected ? "truncated" : "damaged", ": ", bytes,
                                          " bytes, expected ", expected));
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

bool SameBits(const SharedParameters& a, const SharedParameters& b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a == b || SameBits(*a, *b);
}

}  // namespace

bool operator==(const ShardState& a, const ShardState& b) {
  return a.shard == b.shard && a.offset == b.offset && a.layout == b.layout &&
         a.version == b.version && a.round == b.round && a.previous_version == b.previous_version &&
         a.previous_step == b.previous_step && SameBits(a.parameters, b.parameters) &&
         SameBits(a.previous, b.previous) && SameBits(a.optimizer_state, b.optimizer_state) &&
         a.workers == b.workers && a.staleness == b.staleness;
}

EncodedState EncodeState(const ShardState& state) {
  CHECK(state.parameters != nullptr) << "shard " << state.shard << " has no parameters to encode";
  const size_t previous = state.previous == nullptr ? 0 : state.previous->size();
  Header header = {.shard = state.shard,
                   .offset = state.offset,
                   .layout = state.layout,
                   .version = state.version,
                   .round = state.round,
                   .previous_version = state.previous_version,
                   .previous_step = state.previous_step,
                   .workers = state.workers.size(),
                   .staleness = state.staleness.size(),
                   .parameters = state.parameters->size(),
                   .previous = previous,
                   .optimizer = state.optimizer_state.size()};
  std::string marks;
  for (const WorkerMark& mark : state.workers) {
    Append(EncodedMark{mark.incarnation, mark.last_step, mark.dropped, mark.rejected ? 1 : 0},
           &marks);
  }
  for (const StalenessMark& mark : state.staleness) Append(mark, &marks);
  EncodedState encoded;
  encoded.parts = {std::as_bytes(std::span(marks)), std::as_bytes(std::span(*state.parameters))};
  if (previous > 0) encoded.parts.push_back(std::as_bytes(std::span(*state.previous)));
  encoded.parts.push_back(std::as_bytes(std::span(state.optimizer_state)));
  const std::string body = FingerprintOfParts(encoded.parts);
  std::copy_n(body.data(), header.body.size(), header.body.data());
  header.self = SelfOf(header);
  Append(header, &encoded.header);
  encoded.header += marks;
  encoded.parts.front() = std::as_bytes(std::span(encoded.header));
  for (const Bytes part : encoded.parts) encoded.bytes += static_cast<int64_t>(part.size());
  encoded.checksum = FingerprintOfParts(encoded.parts);
  return encoded;
}

absl::StatusOr<ShardState> DecodeState(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < sizeof(Header)) {
    return absl::DataLossError(absl::StrCat("the state of a shard is truncated: ", bytes.size(),
                                            " bytes, its header alone has ", sizeof(Header)));
  }
  std::memcpy(&header, bytes.data(), sizeof(Header));
  RETURN_IF_ERROR(CheckHeader(header, bytes.size()));
  Bytes rest = bytes.subspan(sizeof(Header));
  if (Fingerprint(rest) != std::string(header.body.data(), header.body.size())) {
    return absl::DataLossError(absl::StrCat("the state of shard ", header.shard, ", version ",
                                            header.version,
                                            ", is damaged: its checksum is another"));
  }
  ShardState state;
  state.shard = header.shard;
  state.offset = header.offset;
  state.layout = header.layout;
  state.version = header.version;
  state.round = header.round;
  state.previous_version = header.previous_version;
  state.previous_step = header.previous_step;
  for (const EncodedMark& mark : Take<EncodedMark>(header.workers, &rest)) {
    state.workers.push_back({.incarnation = mark.incarnation,
                             .last_step = mark.last_step,
                             .dropped = mark.dropped,
                             .rejected = mark.rejected != 0});
  }
  state.staleness = Take<StalenessMark>(header.staleness, &rest);
  const auto take = [&rest](uint64_t count) {
    return std::make_shared<const std::vector<float>>(Take<float>(count, &rest));
  };
  state.parameters = take(header.parameters);
  if (header.previous > 0) state.previous = take(header.previous);
  state.optimizer_state = Take<float>(header.optimizer, &rest);
  return state;
}

}  // namespace lockstep
