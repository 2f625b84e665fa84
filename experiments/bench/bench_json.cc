#include "experiments/bench/bench_json.h"

#include <google/protobuf/util/json_util.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lockstep {

absl::StatusOr<std::string> BenchToJson(const BenchFile& file) {
  BenchFile copy = file;
  copy.set_schema(kBenchSchema);
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  const auto printed = google::protobuf::util::MessageToJsonString(copy, &json, options);
  if (!printed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("bench: ", printed.ToString()));
  }
  // Protobuf writes these as texts, which readers take for strings.
  for (const char* const word : {"\"NaN\"", "\"Infinity\"", "\"-Infinity\""}) {
    if (absl::StrContains(json, word)) {
      return absl::InvalidArgumentError(absl::StrCat("bench: a number came out as ", word));
    }
  }
  return json;
}

absl::StatusOr<BenchFile> BenchFromJson(const std::string& json) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  BenchFile file;
  const auto parsed = google::protobuf::util::JsonStringToMessage(json, &file, options);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("not a bench file: ", parsed.ToString()));
  }
  if (file.schema() != kBenchSchema) {
    return absl::InvalidArgumentError(absl::StrCat("bench file has schema '", file.schema(),
                                                   "', this program reads ", kBenchSchema));
  }
  return file;
}

}  // namespace lockstep
