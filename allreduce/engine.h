// engine.h: other libraries' collectives (Open MPI, Gloo, NCCL) behind communicator.h, so that a
// cluster's own engine can carry an experiment; and our own kernels (CUDA). The same call check and
// the same errors as the host engine's: before each collective a barrier of empty messages over
// `control` carries the call's fingerprint, and what fails there or inside the library is explained
// over it. They live in shared objects of ours beside the program, loaded on demand: a program
// starts without them.
// MPI needs processes started by mpirun, one communicator a process: MPI starts and ends with it.
// NCCL and CUDA need a GPU for each rank; data of the host are staged through their memory. CUDA
// takes data of the rank's GPU, too, and several ranks of one process on one GPU. It reads and
// writes data on streams of its own: what another stream writes to them must be through before the
// call, or stand behind the event given to StartAfter (communicator.h).
// Errors: FailedPrecondition (shared object or library absent: says what to install; not under
// mpirun; mpirun's size differs from the group's; NCCL, CUDA: no driver, driver too old, no GPU,
// ranks that share one, settings that differ; CUDA: more blocks than a GPU holds, GPUs that can't
// reach each other, a system that lets no other process share a GPU's memory, ranks on several
// machines), InvalidArgument (CUDA: f64), then those of
// communicator.h.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "allreduce/communicator.h"
#include "allreduce/gpu/place.h"
#include "allreduce/nccl/place.h"
#include "allreduce/transport/link.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/limits.h"

namespace lockstep {

enum class Engine : uint8_t { kMpi = 0, kGloo = 1, kNccl = 2, kCuda = 3 };
inline constexpr std::array kEngines = {Engine::kMpi, Engine::kGloo, Engine::kNccl, Engine::kCuda};
const char* NameOf(Engine engine);  // "mpi", "gloo", "nccl", "cuda"
std::optional<Engine> EngineNamed(std::string_view name);

struct EngineOptions {
  Engine engine = Engine::kGloo;
  std::string library_dir;  // holds liblockstep_mpi.so and the others: the program's folder
  std::string host;         // address of this rank that others reach: Gloo listens there
  int mpi_world_size = 0;   // OMPI_COMM_WORLD_SIZE as main reads it; 0: not started by mpirun
  NcclPlace nccl;
  CudaPlace cuda;
  Limits limits;
};

// Before anything starts: can it run here, with `ranks` ranks on this machine? OK, or
// FailedPrecondition as above.
absl::Status CheckEngine(Engine engine, const std::string& library_dir, const NcclPlace& nccl = {},
                         int ranks = 1, const CudaPlace& cuda = {});

// Ranks are those of `control`. A collective call: every rank makes it. `clock` and `abort` must
// outlive the communicator. Its differences: traffic() is that of the control mesh (the library
// does not tell its own), MeasureLink has no result, AdditionOrder is "" (unknown), messages are
// not logged, and ReduceScatter over Gloo moves as much as AllReduce.
absl::StatusOr<std::unique_ptr<Communicator>> MakeEngineCommunicator(const EngineOptions& options,
                                                                     std::unique_ptr<Link> control,
                                                                     const Clock& clock,
                                                                     const Abort& abort);

}  // namespace lockstep
