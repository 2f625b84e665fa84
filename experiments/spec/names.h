// names.h: what to say about a name that nobody knows. Pure: no I/O, no threads.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

namespace lockstep {

// The name at most a third of its letters away from `word`, cases equal; empty when there is none.
std::string Nearest(const std::string& word, const std::vector<std::string>& names);
// `; did you mean "steps"? Known fields: steps, seeds` with "fields" as `kind`.
std::string KnownNames(const std::string& word, const std::string& kind,
                       const std::vector<std::string>& names);

std::vector<std::string> FieldNames(const google::protobuf::Descriptor& message);
std::vector<std::string> ValueNames(const google::protobuf::EnumDescriptor& enumeration);

}  // namespace lockstep
