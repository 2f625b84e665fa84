#include "experiments/spec/walk.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "experiments/spec/place.h"

namespace lockstep {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::string FieldValue::Text() const {
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(message, &field, index, &text);
  return text;
}

double FieldValue::Number() const {
  const google::protobuf::Reflection& r = *message.GetReflection();
  const bool list = index >= 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return list ? r.GetRepeatedInt32(message, &field, index) : r.GetInt32(message, &field);
    case FieldDescriptor::CPPTYPE_INT64:
      return static_cast<double>(list ? r.GetRepeatedInt64(message, &field, index)
                                      : r.GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return static_cast<double>(list ? r.GetRepeatedUInt64(message, &field, index)
                                      : r.GetUInt64(message, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return list ? r.GetRepeatedDouble(message, &field, index) : r.GetDouble(message, &field);
    default:
      CHECK(false) << path << " is not one of the number types that experiment.proto uses";
      return 0;
  }
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the schema, which is finite
void VisitFields(const Message& message, const std::string& path,
                 const std::function<bool(const FieldValue&)>& visit) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> written;
  reflection.ListFields(message, &written);
  for (const FieldDescriptor* field : written) {
    const std::string list_path = JoinPath(path, field->name());
    const bool repeated = field->is_repeated();
    const int count = repeated ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const std::string value_path = repeated ? IndexedPath(list_path, i) : list_path;
      const bool descend = visit({.message = message,
                                  .field = *field,
                                  .index = repeated ? i : -1,
                                  .path = value_path,
                                  .pattern = PathPattern(value_path),
                                  .list_path = list_path});
      if (!descend || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
      VisitFields(repeated ? reflection.GetRepeatedMessage(message, field, i)
                           : reflection.GetMessage(message, field),
                  value_path, visit);
    }
  }
}

}  // namespace lockstep
