// api.h: libnccl.so.2, opened at run time. It stays loaded: it leaves threads behind.
// Errors: FailedPrecondition, each with its own words: no library (the loader's reason), a missing
// symbol, a version that is too old. All name the file and say what to do. Thread-safe.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allreduce/nccl/abi.h"

namespace lockstep::nccl {

inline constexpr char kLibraryName[] = "libnccl.so.2";

struct Api {
  GetVersion* get_version = nullptr;
  GetErrorString* get_error_string = nullptr;
  GetLastError* get_last_error = nullptr;
  GetUniqueId* get_unique_id = nullptr;
  CommInitRankConfig* comm_init_rank_config = nullptr;
  CommGetAsyncError* comm_get_async_error = nullptr;
  CommFinalize* comm_finalize = nullptr;
  CommDestroy* comm_destroy = nullptr;
  CommAbort* comm_abort = nullptr;
  AllReduce* all_reduce = nullptr;
  Reduce* reduce = nullptr;
  Broadcast* broadcast = nullptr;
  ReduceScatter* reduce_scatter = nullptr;
  AllGather* all_gather = nullptr;

  int version = 0;
  std::string path;  // of the file that was loaded
};

// `library`: a path; empty: kLibraryName.
absl::StatusOr<Api> LoadApi(const std::string& library);

std::string VersionText(int version);  // "2.28.9"

}  // namespace lockstep::nccl
