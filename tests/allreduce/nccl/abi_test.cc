// Our declarations against NCCL's own header and library, where they are installed.
#include "allreduce/nccl/abi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "allreduce/nccl/api.h"
#include "tests/support/status_matchers.h"

#ifdef LOCKSTEP_NCCL_HEADER
#include <nccl.h>
#endif

namespace lockstep::nccl {
namespace {

#ifdef LOCKSTEP_NCCL_HEADER
#define SAME_VALUE(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))
SAME_VALUE(kSuccess, ncclSuccess);
SAME_VALUE(kUnhandledCudaError, ncclUnhandledCudaError);
SAME_VALUE(kSystemError, ncclSystemError);
SAME_VALUE(kInternalError, ncclInternalError);
SAME_VALUE(kInvalidArgument, ncclInvalidArgument);
SAME_VALUE(kInvalidUsage, ncclInvalidUsage);
SAME_VALUE(kRemoteError, ncclRemoteError);
SAME_VALUE(kInProgress, ncclInProgress);
SAME_VALUE(kUint8, ncclUint8);
SAME_VALUE(kInt32, ncclInt32);
SAME_VALUE(kUint32, ncclUint32);
SAME_VALUE(kInt64, ncclInt64);
SAME_VALUE(kUint64, ncclUint64);
SAME_VALUE(kFloat16, ncclFloat16);
SAME_VALUE(kFloat32, ncclFloat32);
SAME_VALUE(kFloat64, ncclFloat64);
SAME_VALUE(kBfloat16, ncclBfloat16);
SAME_VALUE(kSum, ncclSum);
SAME_VALUE(kProd, ncclProd);
SAME_VALUE(kMax, ncclMax);
SAME_VALUE(kMin, ncclMin);
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
static_assert(sizeof(Result) == sizeof(ncclResult_t));
static_assert(sizeof(DataType) == sizeof(ncclDataType_t));
static_assert(sizeof(RedOp) == sizeof(ncclRedOp_t));
static_assert(sizeof(Stream) == sizeof(cudaStream_t));
static_assert(sizeof(Config) <= sizeof(ncclConfig_t));
#define SAME_PLACE(ours, theirs) \
  static_assert(offsetof(Config, ours) == offsetof(ncclConfig_t, theirs))
SAME_PLACE(size, size);
SAME_PLACE(magic, magic);
SAME_PLACE(version, version);
SAME_PLACE(blocking, blocking);
SAME_PLACE(cga_cluster_size, cgaClusterSize);
SAME_PLACE(min_ctas, minCTAs);
SAME_PLACE(max_ctas, maxCTAs);
SAME_PLACE(net_name, netName);
SAME_PLACE(split_share, splitShare);

TEST(NcclAbiTest, AConfigIsInitialisedAsNcclDoes) {
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const Config ours;
  EXPECT_EQ(ours.magic, theirs.magic);
  EXPECT_EQ(ours.blocking, theirs.blocking);
  EXPECT_EQ(ours.max_ctas, theirs.maxCTAs);
  EXPECT_EQ(ours.split_share, theirs.splitShare);
}

// Arguments are passed alike: the same number, each of the same size and kind.
template <typename Ours, typename Theirs>
struct SameCall : std::false_type {};
template <typename R, typename... Ours, typename S, typename... Theirs>
requires(sizeof...(Ours) == sizeof...(Theirs)) struct SameCall<R(Ours...), S(Theirs...)>
    : std::bool_constant<((sizeof(Ours) == sizeof(Theirs)) && ...) &&
                         ((std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>)&&...)> {
};
static_assert(SameCall<GetVersion, decltype(ncclGetVersion)>::value);
static_assert(SameCall<GetErrorString, decltype(ncclGetErrorString)>::value);
static_assert(SameCall<GetLastError, decltype(ncclGetLastError)>::value);
static_assert(SameCall<GetUniqueId, decltype(ncclGetUniqueId)>::value);
static_assert(SameCall<CommInitRankConfig, decltype(ncclCommInitRankConfig)>::value);
static_assert(SameCall<CommGetAsyncError, decltype(ncclCommGetAsyncError)>::value);
static_assert(SameCall<CommFinalize, decltype(ncclCommFinalize)>::value);
static_assert(SameCall<CommDestroy, decltype(ncclCommDestroy)>::value);
static_assert(SameCall<CommAbort, decltype(ncclCommAbort)>::value);
static_assert(SameCall<AllReduce, decltype(ncclAllReduce)>::value);
static_assert(SameCall<Reduce, decltype(ncclReduce)>::value);
static_assert(SameCall<Broadcast, decltype(ncclBroadcast)>::value);
static_assert(SameCall<ReduceScatter, decltype(ncclReduceScatter)>::value);
static_assert(SameCall<AllGather, decltype(ncclAllGather)>::value);
#endif

TEST(NcclAbiTest, TheInstalledLibraryLoads) {
  const absl::StatusOr<Api> api = LoadApi("");
  if (!api.ok()) GTEST_SKIP() << api.status();
  EXPECT_GE(api->version, kVersionMin);
  EXPECT_THAT(api->path, testing::HasSubstr("libnccl"));
  EXPECT_THAT(api->get_error_string(kInvalidUsage), testing::HasSubstr("invalid usage"));
}

}  // namespace
}  // namespace lockstep::nccl
