#include "experiments/analyse/run_json.h"

#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/message_differencer.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "experiments/analyse/atomic_file.h"

namespace lockstep {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Protobuf would write NaN as the text "NaN", which readers take for a string.
// NOLINTNEXTLINE(misc-no-recursion): as deep as the message nests, and parsing bounds that.
absl::Status CheckFinite(const Message& message, const std::string& path) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);  // only fields that are set: an unset number is 0
  for (const FieldDescriptor* field : fields) {
    const std::string name = absl::StrCat(path, path.empty() ? "" : ".", field->name());
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const std::string place = field->is_repeated() ? absl::StrCat(name, "[", i, "]") : name;
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        RETURN_IF_ERROR(CheckFinite(field->is_repeated()
                                        ? reflection.GetRepeatedMessage(message, field, i)
                                        : reflection.GetMessage(message, field),
                                    place));
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
        const double value = field->is_repeated() ? reflection.GetRepeatedDouble(message, field, i)
                                                  : reflection.GetDouble(message, field);
        if (!std::isfinite(value)) {
          return absl::InvalidArgumentError(
              absl::StrCat("run.json: ", place, " is ", value, "; JSON has finite numbers only"));
        }
      }
    }
  }
  return absl::OkStatus();
}

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

absl::StatusOr<std::string> RunToJson(const RunFile& run) {
  RunFile copy = run;
  copy.set_schema(kRunSchema);
  RETURN_IF_ERROR(CheckFinite(copy, ""));
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  const auto printed = google::protobuf::util::MessageToJsonString(copy, &json, options);
  if (!printed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("run.json: ", printed.ToString()));
  }
  absl::StatusOr<RunFile> read = RunFromJson(json);
  if (!read.ok()) return Annotate(read.status(), "run.json does not read back");
  if (!google::protobuf::util::MessageDifferencer::Equals(*read, copy)) {
    return absl::InternalError("run.json: reads back as something else");
  }
  return json;
}

absl::StatusOr<RunFile> RunFromJson(const std::string& json) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  RunFile run;
  const auto parsed = google::protobuf::util::JsonStringToMessage(json, &run, options);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("not a run file: ", parsed.ToString()));
  }
  if (run.schema() != kRunSchema) {
    return absl::InvalidArgumentError(
        absl::StrCat("run file has schema '", run.schema(), "', this program reads ", kRunSchema));
  }
  RETURN_IF_ERROR(CheckFinite(run, ""));
  return run;
}

absl::Status WriteRunJson(const std::string& path, const RunFile& run) {
  ASSIGN_OR_RETURN(const std::string json, RunToJson(run));
  return WriteFileAtomically(path, json);
}

absl::StatusOr<RunFile> ReadRunJson(const std::string& path) {
  const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "rbe"));
  if (file == nullptr) return ErrnoStatus(errno, absl::StrCat("read ", path));
  std::string json;
  char buffer[1 << 16];
  size_t count = 0;
  while ((count = std::fread(buffer, 1, sizeof(buffer), file.get())) > 0) {
    json.append(buffer, count);
  }
  if (std::ferror(file.get()) != 0) return ErrnoStatus(errno, absl::StrCat("read ", path));
  absl::StatusOr<RunFile> run = RunFromJson(json);
  if (!run.ok()) return Annotate(run.status(), path);
  return run;
}

}  // namespace lockstep
