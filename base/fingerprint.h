// fingerprint.h: the hash by which replicas are compared (XXH3, 128 bits). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace lockstep {

// 32 hex digits. Equal bytes give equal text on every host.
std::string Fingerprint(std::span<const std::byte> bytes);
// Of the parts one after the other, without putting them together.
std::string FingerprintOfParts(std::span<const std::span<const std::byte>> parts);

// 64 bits of the same family, for call checks in message headers.
uint64_t Fingerprint64(std::span<const std::byte> bytes);

}  // namespace lockstep
