// listen.h: --listen HOST[:PORT], looked at before anything starts.
// Errors, each with host, address and port: InvalidArgument (not an address, or one that stands for
// all of them), NotFound (the name does not resolve), FailedPrecondition (not an address of this
// host), ResourceExhausted (the port is taken). No answer takes longer than 1.5 s.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/socket.h"

namespace lockstep {

// "10.0.0.1", "10.0.0.1:7000", "::1", "[::1]:7000"; no port: 0, the kernel chooses.
absl::StatusOr<Endpoint> ParseListen(const std::string& text);

// Binds the address once and lets it go.
absl::Status CheckListen(const Endpoint& endpoint);

}  // namespace lockstep
