#include "allreduce/nccl/api.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lockstep::nccl {
namespace {

constexpr char kWhatToDo[] =
    ". Install NCCL 2.18 or later, or name its file in LOCKSTEP_NCCL_LIB, for example "
    "nvidia/nccl/lib/libnccl.so.2 in the folder of a PyTorch installation's packages";

template <typename Function>
absl::Status Find(void* handle, const Api& api, const char* symbol, Function** function) {
  *function = reinterpret_cast<Function*>(dlsym(handle, symbol));
  if (*function != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("nccl: ", api.path, " has no function ", symbol,
                                                    ", though it says that it is version ",
                                                    VersionText(api.version), kWhatToDo));
}

// The file behind a symbol, which a search path may have found.
std::string PathOf(void* symbol, const std::string& asked) {
  Dl_info info = {};
  const bool known = dladdr(symbol, &info) != 0 && info.dli_fname != nullptr;
  return known ? info.dli_fname : asked;
}

absl::Status FindVersion(void* handle, const std::string& name, Api* api) {
  api->path = name;
  api->get_version = reinterpret_cast<GetVersion*>(dlsym(handle, "ncclGetVersion"));
  if (api->get_version == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("nccl: ", name, " is not NCCL: it has no function ncclGetVersion", kWhatToDo));
  }
  api->path = PathOf(reinterpret_cast<void*>(api->get_version), name);
  const Result result = api->get_version(&api->version);
  if (result != kSuccess) {
    return absl::FailedPreconditionError(
        absl::StrCat("nccl: ", api->path, " does not tell its version: error ", result, kWhatToDo));
  }
  if (api->version >= kVersionMin) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("nccl: ", api->path, " is version ",
                                                    VersionText(api->version), ", older than 2.18",
                                                    kWhatToDo));
}

}  // namespace

absl::StatusOr<Api> LoadApi(const std::string& library) {
  const std::string name = library.empty() ? std::string(kLibraryName) : library;
  void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = dlerror();
    return absl::FailedPreconditionError(absl::StrCat(
        "nccl: the library is not here: ", why == nullptr ? "no reason given" : why, kWhatToDo));
  }
  Api api;
  RETURN_IF_ERROR(FindVersion(handle, name, &api));
  const auto find = [&](const char* symbol, auto** function) {
    return Find(handle, api, symbol, function);
  };
  RETURN_IF_ERROR(find("ncclGetErrorString", &api.get_error_string));
  RETURN_IF_ERROR(find("ncclGetLastError", &api.get_last_error));
  RETURN_IF_ERROR(find("ncclGetUniqueId", &api.get_unique_id));
  RETURN_IF_ERROR(find("ncclCommInitRankConfig", &api.comm_init_rank_config));
  RETURN_IF_ERROR(find("ncclCommGetAsyncError", &api.comm_get_async_error));
  RETURN_IF_ERROR(find("ncclCommFinalize", &api.comm_finalize));
  RETURN_IF_ERROR(find("ncclCommDestroy", &api.comm_destroy));
  RETURN_IF_ERROR(find("ncclCommAbort", &api.comm_abort));
  RETURN_IF_ERROR(find("ncclAllReduce", &api.all_reduce));
  RETURN_IF_ERROR(find("ncclReduce", &api.reduce));
  RETURN_IF_ERROR(find("ncclBroadcast", &api.broadcast));
  RETURN_IF_ERROR(find("ncclReduceScatter", &api.reduce_scatter));
  RETURN_IF_ERROR(find("ncclAllGather", &api.all_gather));
  return api;
}

std::string VersionText(int version) {
  // Before 2.9 it was 1000 * major + 100 * minor + patch.
  const int unit = version < 10000 ? 1000 : 10000;
  return absl::StrCat(version / unit, ".", version % unit / 100, ".", version % 100);
}

}  // namespace lockstep::nccl
