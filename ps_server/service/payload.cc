#include "ps_server/service/payload.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/numeric/convert.h"

namespace lockstep {
namespace {

// The bytes [offset, offset + count) of `parts`.
std::vector<Bytes> Cut(const std::vector<Bytes>& parts, int64_t offset, int64_t count) {
  std::vector<Bytes> pieces;
  for (const Bytes part : parts) {
    const auto size = static_cast<int64_t>(part.size());
    if (offset < size && count > 0) {
      const int64_t taken = std::min(count, size - offset);
      pieces.push_back(part.subspan(static_cast<size_t>(offset), static_cast<size_t>(taken)));
      count -= taken;
    }
    offset = std::max<int64_t>(0, offset - size);
  }
  return pieces;
}

// An encoding points into its state.
struct OwnedState {
  std::shared_ptr<const ShardState> state;
  EncodedState encoded;
};

}  // namespace

Payload PayloadOf(std::string bytes) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  const Bytes view = std::as_bytes(std::span(owner->data(), owner->size()));
  return {owner, {view}, static_cast<int64_t>(view.size())};
}

Payload PayloadOf(const SharedParameters& values) {
  const Bytes view = std::as_bytes(std::span(*values));
  return {values, {view}, static_cast<int64_t>(view.size())};
}

Payload PayloadOf(std::shared_ptr<const ShardState> state) {
  auto owner = std::make_shared<OwnedState>();
  owner->encoded = EncodeState(*state);
  owner->state = std::move(state);
  const EncodedState& encoded = owner->encoded;
  return {owner, encoded.parts, encoded.bytes};
}

Payload PayloadOf(const SharedParameters& values, const TableRows& table,
                  std::span<const int64_t> rows, Dtype wire) {
  const int64_t row_bytes = table.row_elements * SizeOf(wire);
  std::string bytes(static_cast<size_t>(row_bytes) * rows.size(), '\0');
  char* to = bytes.data();
  for (const int64_t row : rows) {
    const float* const from = values->data() + table.OffsetOf(row);
    if (wire == Dtype::kF32) {
      std::memcpy(to, from, static_cast<size_t>(row_bytes));
    } else {
      Convert(Dtype::kF32, from, wire, to, table.row_elements);
    }
    to += row_bytes;
  }
  return PayloadOf(std::move(bytes));
}

Payload WireVersions::Of(int64_t version, const SharedParameters& parameters) {
  if (dtype_ == Dtype::kF32) return PayloadOf(parameters);
  std::shared_ptr<const Converted> converted = versions_[version].lock();
  if (converted == nullptr) {
    const auto count = static_cast<int64_t>(parameters->size());
    auto fresh = std::make_shared<Converted>(static_cast<size_t>(count * SizeOf(dtype_)));
    Convert(Dtype::kF32, parameters->data(), dtype_, fresh->data(), count);
    converted = std::move(fresh);
    std::erase_if(versions_, [](const auto& entry) { return entry.second.expired(); });
    versions_[version] = converted;
    if (versions_.rbegin()->first == version) newest_ = converted;
  }
  const Bytes view(*converted);
  return {converted, {view}, static_cast<int64_t>(view.size())};
}

void WireVersions::Forget() {
  newest_.reset();
  versions_.clear();
}

Chunk NextChunk(const Outgoing& message, int64_t chunk_bytes, int64_t* sent_bytes) {
  Chunk chunk = {.header = message.header, .pieces = {}, .owner = message.payload.owner};
  const int64_t unit = message.unit_bytes;
  const int64_t rest = message.payload.bytes - *sent_bytes;
  const int64_t count = unit == 0 ? rest : std::min(rest, chunk_bytes / unit * unit);
  if (unit > 0) chunk.header.set_offset(*sent_bytes / unit);
  if (*sent_bytes > 0) chunk.header.clear_replicated();
  chunk.pieces = Cut(message.payload.parts, *sent_bytes, count);
  *sent_bytes += count;
  chunk.complete = *sent_bytes == message.payload.bytes;
  return chunk;
}

}  // namespace lockstep
