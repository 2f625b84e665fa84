// run_json.h: run.json, schema lockstep.run/1: RunFile as JSON with the names of record.proto.
// A field is absent when nothing measures it, null with <field>_reason when measuring failed.
// Errors: those of proto_json.h; file errors as errno. Threads: any.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/record.pb.h"

namespace lockstep {

inline constexpr char kRunSchema[] = "lockstep.run/1";

absl::StatusOr<std::string> RunToJson(const RunFile& run);
absl::StatusOr<RunFile> RunFromJson(const std::string& json);

absl::Status WriteRunJson(const std::string& path, const RunFile& run);
absl::StatusOr<RunFile> ReadRunJson(const std::string& path);

}  // namespace lockstep
