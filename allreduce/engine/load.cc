#include "allreduce/engine/load.h"

#include <dlfcn.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lockstep {
namespace {

const char* NeedsOf(Engine engine) {
  switch (engine) {
    case Engine::kMpi:
      return "the Debian packages openmpi-bin and libopenmpi-dev";
    case Engine::kGloo:
      return "the Debian package libgloo-dev";
    case Engine::kNccl:
    case Engine::kCuda:
      return "the CUDA toolkit, 12 or later (its nvcc in PATH or /usr/local/cuda/bin)";
  }
  return "";
}

absl::StatusOr<LibraryFactory*> FindFactory(Engine engine, const std::string& library_dir) {
  const std::string path = absl::StrCat(library_dir, "/liblockstep_", NameOf(engine), ".so");
  // Global, because Open MPI's own plugins look for its symbols there.
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* const symbol = handle == nullptr ? nullptr : dlsym(handle, kLibraryFactory);
  if (symbol == nullptr) {
    const char* const why = dlerror();
    return absl::FailedPreconditionError(absl::StrCat(
        "engine ", NameOf(engine), " is not here: ", why == nullptr ? "no such symbol" : why,
        ". Install ", NeedsOf(engine), " and build again"));
  }
  return reinterpret_cast<LibraryFactory*>(symbol);
}

}  // namespace

const char* NameOf(Engine engine) {
  switch (engine) {
    case Engine::kMpi:
      return "mpi";
    case Engine::kGloo:
      return "gloo";
    case Engine::kNccl:
      return "nccl";
    case Engine::kCuda:
      return "cuda";
  }
  return "unknown engine";
}

std::optional<Engine> EngineNamed(std::string_view name) {
  const auto* const it = std::find_if(kEngines.begin(), kEngines.end(),
                                      [&](Engine engine) { return NameOf(engine) == name; });
  return it == kEngines.end() ? std::nullopt : std::optional(*it);
}

absl::Status CheckEngine(Engine engine, const std::string& library_dir, const NcclPlace& nccl,
                         int ranks, const CudaPlace& cuda) {
  LibrarySetup setup;
  setup.nccl = nccl;
  setup.cuda = cuda;
  ASSIGN_OR_RETURN(const std::unique_ptr<EngineLibrary> library,
                   LoadEngine(engine, library_dir, setup));
  return library->CheckHere(ranks);
}

absl::StatusOr<std::unique_ptr<EngineLibrary>> LoadEngine(Engine engine,
                                                          const std::string& library_dir,
                                                          const LibrarySetup& setup) {
  ASSIGN_OR_RETURN(LibraryFactory* const factory, FindFactory(engine, library_dir));
  return std::unique_ptr<EngineLibrary>(factory(setup));
}

}  // namespace lockstep
