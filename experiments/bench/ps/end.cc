#include "experiments/bench/ps/end.h"

#include "absl/strings/str_cat.h"
#include "experiments/bench/ps/grpc_end.h"

namespace lockstep {

absl::StatusOr<std::unique_ptr<PsEnd>> MakePsEnd(const PsEndOptions& options, const Clock& clock,
                                                 const Abort& abort) {
  if (options.engine == "ps") return MakeOurEnd(options, clock, abort);
  if (options.engine == "tcp") return MakeTcpEnd(options, clock, abort);
  if (options.engine == "grpc") {
    return options.serves() ? MakeGrpcServerEnd(options) : MakeGrpcWorkerEnd(options, clock, abort);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("engine '", options.engine, "' is none of ps, grpc, tcp"));
}

}  // namespace lockstep
