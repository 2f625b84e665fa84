// byte_size.h: sizes as people write them on a command line. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep {

// "4", "64KiB", "1MiB", "2GiB", "1MB" (10^6). InvalidArgument: no size, or more than 4 GiB.
absl::StatusOr<int64_t> ParseBytes(const std::string& text);
// "4:64MiB:4" (from, to, factor) or "4,1KiB,1MiB": ascending, each once. InvalidArgument says what
// is wrong and shows an example; it does not name the option.
absl::StatusOr<std::vector<int64_t>> ParseSizes(const std::string& text);
// 4096 -> "4 KiB", 1000 -> "1000 B".
std::string BytesText(int64_t bytes);

}  // namespace lockstep
