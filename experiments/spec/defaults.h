// defaults.h: the experiment with everything that was left open written out, and its text.
// Pure: no I/O, no threads.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>

#include "proto/experiment.pb.h"

namespace lockstep {

// The value, in text format, of a field that is not written; empty when there is none.
// `pattern` is its path without indices: "limits.lease_ms".
std::string DefaultText(const std::string& pattern, const google::protobuf::FieldDescriptor& field);

// Writes every default out, so that the record of a run needs no knowledge of this program's
// version. REQUIRES: valid.
void FillDefaults(Experiment* experiment);

// Text format that parses to an equal message, under a comment that says what it is.
std::string CanonicalText(const Experiment& experiment);

}  // namespace lockstep
