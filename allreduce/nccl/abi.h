// abi.h: the part of NCCL's binary interface that we use, in our own declarations, so that its
// header is not needed to build. The names are NCCL's own. Stable since 2.18, the oldest version
// taken: later ones only add result codes, types and fields after `split_share`, and a library
// reads as much of NcclConfig as its `size` says. Checked against 2.28.9's header where that is
// installed (tests/allreduce/nccl/abi_test.cc).
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>

namespace lockstep::nccl {

inline constexpr int kVersionMin = 21800;  // 10000 * major + 100 * minor + patch

struct Comm;  // opaque
struct UniqueId {
  char internal[128];
};

enum Result : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

enum DataType : int {
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
};

enum RedOp : int { kSum = 0, kProd = 1, kMax = 2, kMin = 3 };

// ncclConfig_t as of 2.18.
struct Config {
  size_t size = sizeof(Config);
  unsigned int magic = 0xcafebeef;
  unsigned int version = kVersionMin;
  int blocking = INT_MIN;  // INT_MIN, null: the library's default
  int cga_cluster_size = INT_MIN;
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
};

// A cudaStream_t.
using Stream = void*;

// [function of Api, symbol]; the functions' types follow.
using GetVersion = Result(int* version);
using GetErrorString = const char*(Result result);
using GetLastError = const char*(Comm* comm);
using GetUniqueId = Result(UniqueId* id);
using CommInitRankConfig = Result(Comm** comm, int ranks, UniqueId id, int rank, Config* config);
using CommGetAsyncError = Result(Comm* comm, Result* async_error);
using CommFinalize = Result(Comm* comm);
using CommDestroy = Result(Comm* comm);
using CommAbort = Result(Comm* comm);
using AllReduce = Result(const void* send, void* recv, size_t count, DataType type, RedOp op,
                         Comm* comm, Stream stream);
using Reduce = Result(const void* send, void* recv, size_t count, DataType type, RedOp op, int root,
                      Comm* comm, Stream stream);
using Broadcast = Result(const void* send, void* recv, size_t count, DataType type, int root,
                         Comm* comm, Stream stream);
using ReduceScatter = Result(const void* send, void* recv, size_t recv_count, DataType type,
                             RedOp op, Comm* comm, Stream stream);
using AllGather = Result(const void* send, void* recv, size_t send_count, DataType type, Comm* comm,
                         Stream stream);

}  // namespace lockstep::nccl
