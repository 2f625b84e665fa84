// Replicate as bytes, without its payload: fixed fields, then the identities; little-endian.
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ps_server/core/replication.h"

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they are");

struct Fixed {
  uint32_t format = 1;
  uint32_t kind = 0;
  int64_t version = 0;
  int64_t sequence = 0;
  int64_t base = 0;
};
struct Identity {
  int32_t worker = 0;
  int32_t shard = 0;
  int64_t incarnation = 0;
  int64_t step = 0;
};
static_assert(sizeof(Fixed) == 32 && sizeof(Identity) == 24, "no padding, whose bytes nobody sets");

}  // namespace

std::string EncodeReplicate(const Replicate& message) {
  const Fixed fixed = {.kind = static_cast<uint32_t>(message.kind),
                       .version = message.version,
                       .sequence = message.sequence,
                       .base = message.base};
  std::string bytes(reinterpret_cast<const char*>(&fixed), sizeof(fixed));
  for (const UpdateId& id : message.pushes) {
    const Identity identity = {id.worker, id.shard, id.incarnation, id.step};
    bytes.append(reinterpret_cast<const char*>(&identity), sizeof(identity));
  }
  return bytes;
}

absl::StatusOr<Replicate> DecodeReplicate(const std::string& bytes) {
  Fixed fixed;
  if (bytes.size() < sizeof(fixed) || (bytes.size() - sizeof(fixed)) % sizeof(Identity) != 0) {
    return absl::DataLossError(absl::StrCat(
        "a message between copies of a shard is truncated: ", bytes.size(), " bytes, expected ",
        sizeof(fixed), " and ", sizeof(Identity), " for each identity"));
  }
  std::memcpy(&fixed, bytes.data(), sizeof(fixed));
  if (fixed.format != Fixed{}.format ||
      fixed.kind > static_cast<uint32_t>(Replicate::Kind::kMember) || fixed.version < 0 ||
      fixed.sequence < 0 || fixed.base < 0) {
    return absl::DataLossError(absl::StrCat(
        "a message between copies of a shard is damaged: format ", fixed.format, ", kind ",
        fixed.kind, ", version ", fixed.version, ", sequence ", fixed.sequence));
  }
  Replicate message = {.kind = static_cast<Replicate::Kind>(fixed.kind),
                       .version = fixed.version,
                       .sequence = fixed.sequence,
                       .base = fixed.base};
  for (size_t at = sizeof(fixed); at < bytes.size(); at += sizeof(Identity)) {
    Identity identity;
    std::memcpy(&identity, bytes.data() + at, sizeof(identity));
    message.pushes.push_back(
        {identity.worker, identity.incarnation, identity.step, identity.shard});
  }
  return message;
}

}  // namespace lockstep
