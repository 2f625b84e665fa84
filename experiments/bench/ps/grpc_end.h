// grpc_end.h: the two sides of the gRPC roof, each a file of its own. As end.h.
#pragma once

#include <memory>

#include "experiments/bench/ps/end.h"

namespace lockstep {

absl::StatusOr<std::unique_ptr<PsEnd>> MakeGrpcServerEnd(const PsEndOptions& options);
absl::StatusOr<std::unique_ptr<PsEnd>> MakeGrpcWorkerEnd(const PsEndOptions& options,
                                                         const Clock& clock, const Abort& abort);

}  // namespace lockstep
