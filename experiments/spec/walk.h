// walk.h: visits every written field of an experiment. Pure: no I/O, no threads.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <functional>
#include <string>

namespace lockstep {

// One value: a single field (index -1) or one element of a list.
struct FieldValue {
  const google::protobuf::Message& message;  // that holds the field
  const google::protobuf::FieldDescriptor& field;
  int index = -1;
  std::string path;       // "variant[1].ps.servers[0]"
  std::string pattern;    // "variant.ps.servers"
  std::string list_path;  // `path` without the last index: "variant[1].ps.servers"

  // As in text format: RING, true, 0.1; a block has none.
  std::string Text() const;
  // REQUIRES: a number.
  double Number() const;
};

// `visit` returns whether to go on into a block.
void VisitFields(const google::protobuf::Message& message, const std::string& path,
                 const std::function<bool(const FieldValue&)>& visit);

}  // namespace lockstep
