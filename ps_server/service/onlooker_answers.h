// onlooker_answers.h: what a server answers to gRPC's health check and to its reflection, of which
// it serves ParameterServer, Health and ServerReflection. Errors: Unimplemented (another method),
// InvalidArgument (no such message), NotFound (the health of another service). Pure, thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lockstep {

inline constexpr char kHealthMethod[] = "/grpc.health.v1.Health/Check";
inline constexpr char kReflectionMethod[] =
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

// The encoded response to an encoded request of `method`.
absl::StatusOr<std::string> AnswerOnlooker(absl::string_view method, const std::string& request);

}  // namespace lockstep
