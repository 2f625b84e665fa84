#include "experiments/spec/bind.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <cstdint>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "experiments/spec/names.h"

namespace lockstep {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Protobuf would print its own message, which knows no path; Binder::BindValue writes ours.
class Silence : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int /*line*/, int /*column*/, const std::string& /*message*/) override {}
};

bool ParseScalar(const std::string& text, const FieldDescriptor& field, Message* message) {
  Silence silence;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&silence);
  return parser.ParseFieldValueFromString(text, &field, message);
}

std::string Unquoted(const std::string& text) {
  const bool quoted = text.size() >= 2 && (text.front() == '"' || text.front() == '\'');
  return quoted ? text.substr(1, text.size() - 2) : text;
}

std::string Spoken(const SpecPlace& place) {
  return place.line > 0 ? absl::StrCat("line ", place.line) : place.file;
}

}  // namespace

std::string ExpectedValue(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return absl::StrCat("a block { } with the fields ",
                          absl::StrJoin(FieldNames(*field.message_type()), ", "));
    case FieldDescriptor::CPPTYPE_ENUM:
      return absl::StrCat("one of ", absl::StrJoin(ValueNames(*field.enum_type()), ", "));
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat("a whole number up to ", std::numeric_limits<int32_t>::max());
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat("a whole number up to ", std::numeric_limits<int64_t>::max());
    case FieldDescriptor::CPPTYPE_UINT64:
      return "a whole number, 0 or more";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_STRING:
      return "text in quotes";
    default:
      return "a number";
  }
}

void Binder::Error(int line, int column, const std::string& path, const std::string& message) {
  errors_->push_back({.place = source_.PlaceOf(line, column), .message = message});
  places_->MarkUnreadable(path);
}

void Binder::SyntaxErrors(const std::vector<OutlineError>& errors) {
  for (const OutlineError& error : errors) {
    errors_->push_back(
        {.place = source_.PlaceOf(error.line, error.column), .message = error.message});
  }
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the schema, which is finite
void Binder::BindFields(const std::vector<OutlineField>& fields, const std::string& path,
                        Message* message) {
  const google::protobuf::Descriptor& descriptor = *message->GetDescriptor();
  std::map<const FieldDescriptor*, const OutlineField*> seen;
  for (const OutlineField& outline : fields) {
    const FieldDescriptor* field = descriptor.FindFieldByName(outline.name);
    if (field == nullptr) {
      const std::vector<std::string> known = FieldNames(descriptor);
      const std::string nearest = Nearest(outline.name, known);
      Error(outline.line, outline.column, JoinPath(path, nearest.empty() ? outline.name : nearest),
            absl::StrCat("unknown field \"", outline.name, "\" in ",
                         path.empty() ? "the experiment" : path,
                         KnownNames(outline.name, "fields", known)));
      continue;
    }
    const auto [first, is_first] = seen.emplace(field, &outline);
    if (!is_first && !field->is_repeated()) {
      Error(outline.line, outline.column, JoinPath(path, outline.name),
            absl::StrCat(JoinPath(path, outline.name), " is given twice, first at line ",
                         first->second->line, "; keep one"));
      continue;
    }
    BindField(outline, path, *field, message);
  }
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the schema, which is finite
void Binder::BindField(const OutlineField& outline, const std::string& path,
                       const FieldDescriptor& field, Message* message) {
  const std::string field_path = JoinPath(path, field.name());
  if (outline.unreadable) places_->MarkUnreadable(field_path);  // reported as a syntax error
  CheckOneof(outline, path, field, *message);
  if (outline.list && !field.is_repeated()) {
    Error(
        outline.line, outline.column, field_path,
        absl::StrCat(field_path, " takes one value, got a list; expected ", ExpectedValue(field)));
    return;
  }
  const SpecPlace place = source_.PlaceOf(outline.line, outline.column);
  if (field.is_repeated() && !places_->Contains(field_path)) places_->Set(field_path, place);
  for (const OutlineValue& value : outline.values) {
    if (!field.is_repeated()) {
      places_->Set(field_path, place);
      BindValue(value, field_path, field, message);
      continue;
    }
    const int index = message->GetReflection()->FieldSize(*message, &field);
    const std::string element_path = IndexedPath(field_path, index);
    // An element in a list is named by its own place, `variant { }` by that of its name.
    places_->Set(element_path, outline.list ? source_.PlaceOf(value.line, value.column) : place);
    BindValue(value, element_path, field, message);
  }
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the schema, which is finite
void Binder::BindValue(const OutlineValue& value, const std::string& path,
                       const FieldDescriptor& field, Message* message) {
  const google::protobuf::Reflection& reflection = *message->GetReflection();
  const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (value.block && is_message) {
    Message* nested = field.is_repeated() ? reflection.AddMessage(message, &field)
                                          : reflection.MutableMessage(message, &field);
    BindFields(value.fields, path, nested);
    return;
  }
  if (!value.block && !is_message && ParseScalar(value.text, field, message)) return;
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM && !value.block) {
    const std::string word = Unquoted(value.text);
    const std::vector<std::string> known = ValueNames(*field.enum_type());
    const bool only_quoted = field.enum_type()->FindValueByName(word) != nullptr;
    Error(value.line, value.column, path,
          only_quoted ? absl::StrCat(path, ": write ", word, " without quotes")
                      : absl::StrCat(path, ": unknown value \"", word, "\"",
                                     KnownNames(word, "values", known)));
    return;
  }
  Error(value.line, value.column, path,
        absl::StrCat(path, ": expected ", ExpectedValue(field), ", got ",
                     value.block ? "a block { }" : value.text));
}

void Binder::CheckOneof(const OutlineField& outline, const std::string& path,
                        const FieldDescriptor& field, const Message& message) {
  const google::protobuf::OneofDescriptor* oneof = field.real_containing_oneof();
  if (oneof == nullptr || !message.GetReflection()->HasOneof(message, oneof)) return;
  const FieldDescriptor* other = message.GetReflection()->GetOneofFieldDescriptor(message, oneof);
  if (other == &field) return;
  Error(outline.line, outline.column, JoinPath(path, field.name()),
        absl::StrCat(path, ": \"", field.name(), "\" and \"", other->name(), "\" (",
                     Spoken(places_->Find(JoinPath(path, other->name()))),
                     ") exclude each other; keep one"));
}

}  // namespace lockstep
