#include "experiments/analyse/proto_json.h"

#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/message_differencer.h>

#include <cmath>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

const FieldDescriptor* SchemaField(const Message& message) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName("schema");
  CHECK(field != nullptr) << message.GetTypeName() << " has no schema";
  return field;
}

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
              absl::StrCat(place, " is ", value, "; JSON has finite numbers only"));
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ToJson(const Message& message, const JsonKind& kind) {
  const std::unique_ptr<Message> copy(message.New());
  copy->CopyFrom(message);
  copy->GetReflection()->SetString(copy.get(), SchemaField(*copy), kind.schema);
  RETURN_IF_ERROR(Annotate(CheckFinite(*copy, ""), kind.name));
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  const auto printed = google::protobuf::util::MessageToJsonString(*copy, &json, options);
  if (!printed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(kind.name, ": ", printed.ToString()));
  }
  const std::unique_ptr<Message> read(message.New());
  RETURN_IF_ERROR(Annotate(FromJson(json, kind, read.get()), "it does not read back"));
  if (!google::protobuf::util::MessageDifferencer::Equals(*read, *copy)) {
    return absl::InternalError(absl::StrCat(kind.name, ": reads back as something else"));
  }
  return json;
}

absl::Status FromJson(const std::string& json, const JsonKind& kind, Message* message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto parsed = google::protobuf::util::JsonStringToMessage(json, message, options);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("not a ", kind.name, ": ", parsed.ToString()));
  }
  const std::string schema = message->GetReflection()->GetString(*message, SchemaField(*message));
  if (schema != kind.schema) {
    return absl::InvalidArgumentError(
        absl::StrCat(kind.name, " has schema '", schema, "', this program reads ", kind.schema));
  }
  return Annotate(CheckFinite(*message, ""), kind.name);
}

}  // namespace lockstep
