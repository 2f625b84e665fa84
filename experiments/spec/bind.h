// bind.h: from a spec's outline to the Experiment message, by reflection. What can be read is read.
// Errors: all of them, each with its place: unknown names with the known ones, wrong types, a field
// given twice, two members of a oneof.
// Pure: no I/O, no threads.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "experiments/spec/outline.h"
#include "experiments/spec/place.h"

namespace lockstep {

// Where an outline's text comes from: a file, or the value of an override.
struct SpecSource {
  std::string file;
  bool override_text = false;
  int column_offset = 0;  // of the value within the override

  SpecPlace PlaceOf(int line, int column) const {
    if (!override_text) return {.file = file, .line = line, .column = column};
    return {.file = file, .line = 0, .column = line == 1 ? column + column_offset : column};
  }
};

class Binder {
 public:
  Binder(SpecSource source, Places* places, std::vector<SpecError>* errors)
      : source_(std::move(source)), places_(places), errors_(errors) {}

  void SyntaxErrors(const std::vector<OutlineError>& errors);
  // Into `message`, which stands at `path` and has none of these fields yet.
  void BindFields(const std::vector<OutlineField>& fields, const std::string& path,
                  google::protobuf::Message* message);
  // Adds the values of `outline` to the empty field `field` of the message at `path`.
  void BindField(const OutlineField& outline, const std::string& path,
                 const google::protobuf::FieldDescriptor& field,
                 google::protobuf::Message* message);
  // Sets `field`, or appends to it where it is repeated; errors call the value `path`.
  void BindValue(const OutlineValue& value, const std::string& path,
                 const google::protobuf::FieldDescriptor& field,
                 google::protobuf::Message* message);

 private:
  void CheckOneof(const OutlineField& outline, const std::string& path,
                  const google::protobuf::FieldDescriptor& field,
                  const google::protobuf::Message& message);
  void Error(int line, int column, const std::string& path, const std::string& message);

  SpecSource source_;
  Places* places_;
  std::vector<SpecError>* errors_;
};

// "one of MEAN, SUM", "a whole number", "text in quotes": what the field takes.
std::string ExpectedValue(const google::protobuf::FieldDescriptor& field);

}  // namespace lockstep
