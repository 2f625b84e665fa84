#include "base/fingerprint.h"

#include <xxhash.h>

#include "absl/strings/str_format.h"

namespace lockstep {

std::string Fingerprint(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return absl::StrFormat("%016x%016x", hash.high64, hash.low64);
}

uint64_t Fingerprint64(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace lockstep
