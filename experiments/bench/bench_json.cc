#include "experiments/bench/bench_json.h"

#include "base/status.h"
#include "experiments/analyse/proto_json.h"

namespace lockstep {
namespace {

constexpr JsonKind kBenchJson = {"bench file", kBenchSchema};

}  // namespace

absl::StatusOr<std::string> BenchToJson(const BenchFile& file) { return ToJson(file, kBenchJson); }

absl::StatusOr<BenchFile> BenchFromJson(const std::string& json) {
  BenchFile file;
  RETURN_IF_ERROR(FromJson(json, kBenchJson, &file));
  return file;
}

}  // namespace lockstep
