// congestion.h: sets the TCP congestion control of everything that this process starts, ours and
// other libraries' alike: a network namespace of its own (as root, or inside a user namespace)
// whose loopback routes carry it. The machine outside keeps its setting. Errors:
// FailedPrecondition (no namespaces here, no `ip`: names the package), InvalidArgument (unknown
// name: lists those there are). Threads: call it before any other thread exists.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace lockstep {

absl::Status UseCongestionControl(const std::string& name);

}  // namespace lockstep
