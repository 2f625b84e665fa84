// library.h: what a shared object around another library gives: its collectives alone, unchecked.
// The caller has made sure that every rank makes the same call (engine/communicator.cc, or the
// bench by its own protocol). Errors: Unavailable (a peer or the transport broke), DeadlineExceeded
// (the library's own timeout), Internal, and what `keep_waiting` says. After an error only Cancel
// and the destructor may be called. Threads: one; Cancel from any.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "allreduce/gpu/place.h"
#include "allreduce/nccl/place.h"
#include "base/numeric/dtype.h"

namespace lockstep {

// Asked again and again while a call is not through; an error ends the wait with it. May sleep a
// little, the longer the longer it has been asked in a row.
using KeepWaiting = std::function<absl::Status()>;

struct LibraryCall {
  void* data = nullptr;  // in place
  int64_t count = 0;     // elements, at least 1
  Dtype dtype = Dtype::kF32;
  ReduceOp op = ReduceOp::kSum;  // any that base/numeric/support.h has; AVG only where Averages()
  int root = 0;
  int64_t timeout_ms = 0;
  void* after = nullptr;  // communicator.h's StartAfter, of CUDA alone
  // Empty: the library's own blocking call, as fast as it goes, with nothing that bounds it but the
  // library's timeout, if it has one.
  KeepWaiting keep_waiting;
};

struct LibrarySetup {
  int rank = 0;
  int world_size = 1;
  std::string host;
  int64_t connect_timeout_ms = 0;
  NcclPlace nccl = {};
  CudaPlace cuda = {};
};

class EngineLibrary {
 public:
  virtual ~EngineLibrary() = default;
  virtual std::string Version() const = 0;  // "Open MPI v4.1.4"

  // True: a call asks keep_waiting. False: it blocks inside, until through, its timeout or Cancel.
  virtual bool AsksWhileWaiting() const = 0;

  // True: AVG is a call of its own. False: the caller sums and divides, in the host's memory.
  virtual bool Averages() const { return false; }

  // True: its destructor waits for every rank's, for as long as that takes, unless Cancel was
  // called.
  virtual bool EndsTogether() const { return false; }

  // Before anything starts: can it run here, with so many ranks on this machine?
  // FailedPrecondition: what is missing, and what to do.
  virtual absl::Status CheckHere(int ranks) = 0;

  // What every rank must know of this one before Connect, of the same size on all; may be empty.
  virtual absl::Status Prepare(std::string* address) = 0;
  // [rank]. `keep_waiting` as in a call; empty: nothing but connect_timeout_ms ends it.
  virtual absl::Status Connect(const std::vector<std::string>& addresses,
                               const KeepWaiting& keep_waiting) = 0;

  // The library's algorithms for AllReduce, by name; the first is its own choice.
  virtual std::vector<std::string> Algorithms() const = 0;
  // For the AllReduce calls from now on. Collective. InvalidArgument: none of Algorithms().
  virtual absl::Status UseAlgorithm(const std::string& name) = 0;

  virtual absl::Status AllReduce(const LibraryCall& call) = 0;
  virtual absl::Status Reduce(const LibraryCall& call) = 0;
  virtual absl::Status Broadcast(const LibraryCall& call) = 0;
  // Parts as PartOf (communicator.h) cuts them.
  virtual absl::Status ReduceScatter(const LibraryCall& call) = 0;
  virtual absl::Status AllGather(const LibraryCall& call) = 0;
  // Returns when every rank is here and nothing is under way, so that a rank may stop calling.
  virtual absl::Status Settle() = 0;

  // For some ranks of this one, in this order, this one among them: to be connected like any other,
  // by these ranks alone. Must not outlive this one.
  virtual std::unique_ptr<EngineLibrary> Group(const LibrarySetup& setup,
                                               const std::vector<int>& ranks) = 0;

  // Ends a call that blocks inside with an error; the library is not called again but to destroy
  // it.
  virtual void Cancel() = 0;
};

// The one symbol of each shared object.
inline constexpr char kLibraryFactory[] = "LockstepMakeEngineLibrary";
using LibraryFactory = EngineLibrary*(const LibrarySetup& setup);

}  // namespace lockstep
