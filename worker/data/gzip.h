// gzip.h: unpacks a gzip file that lies in memory.
// Errors: DataLoss (not gzip, cut off, or damaged: its checksum is verified), ResourceExhausted
// (more than `bytes_max` bytes come out). Pure, thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lockstep {

absl::StatusOr<std::string> Gunzip(std::string_view packed, int64_t bytes_max);

}  // namespace lockstep
