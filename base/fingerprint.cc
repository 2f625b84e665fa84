#include "base/fingerprint.h"

#include <xxhash.h>

#include <memory>

#include "absl/strings/str_format.h"
#include "base/check.h"

namespace lockstep {

namespace {

std::string Hex(const XXH128_hash_t& hash) {
  return absl::StrFormat("%016x%016x", hash.high64, hash.low64);
}

struct FreeState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

}  // namespace

std::string Fingerprint(std::span<const std::byte> bytes) {
  return Hex(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string FingerprintOfParts(std::span<const std::span<const std::byte>> parts) {
  const std::unique_ptr<XXH3_state_t, FreeState> state(XXH3_createState());
  CHECK(state != nullptr && XXH3_128bits_reset(state.get()) == XXH_OK);
  for (const std::span<const std::byte> part : parts) {
    CHECK(XXH3_128bits_update(state.get(), part.data(), part.size()) == XXH_OK);
  }
  return Hex(XXH3_128bits_digest(state.get()));
}

uint64_t Fingerprint64(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace lockstep
