// bench_json.h: a bench file as JSON, lockstep.bench/1 (DESIGN section 9). Errors: those of
// experiments/analyse/proto_json.h. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "proto/bench.pb.h"

namespace lockstep {

inline constexpr char kBenchSchema[] = "lockstep.bench/1";

absl::StatusOr<std::string> BenchToJson(const BenchFile& file);
absl::StatusOr<BenchFile> BenchFromJson(const std::string& json);

}  // namespace lockstep
