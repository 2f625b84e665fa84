// proto_json.h: a result message as JSON with the names of its fields, and back. Its field `schema`
// says which kind and version it is; another one is refused, unknown fields are ignored on reading.
// No NaN and no infinity. Errors: InvalidArgument names the field that is not finite, or says what
// is wrong with a file; Internal (it reads back as something else). Pure. Threads: any.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep {

struct JsonKind {
  const char* name;    // "run file"
  const char* schema;  // "lockstep.run/1"
};

// Fills in `schema`. The text is read back and compared before it is returned. REQUIRES: `message`
// has a field `schema`, and so has FromJson's.
absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message, const JsonKind& kind);
absl::Status FromJson(const std::string& json, const JsonKind& kind,
                      google::protobuf::Message* message);

}  // namespace lockstep
