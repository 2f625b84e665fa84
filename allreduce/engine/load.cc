#include "allreduce/engine/load.h"

#include <dlfcn.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lockstep {
namespace {

const char* PackagesOf(Engine engine) {
  return engine == Engine::kMpi ? "openmpi-bin and libopenmpi-dev" : "libgloo-dev";
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
        ". Install the Debian packages ", PackagesOf(engine), " and build again"));
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
  }
  return "unknown engine";
}

std::optional<Engine> EngineNamed(std::string_view name) {
  const auto* const it = std::find_if(kEngines.begin(), kEngines.end(),
                                      [&](Engine engine) { return NameOf(engine) == name; });
  return it == kEngines.end() ? std::nullopt : std::optional(*it);
}

absl::Status CheckEngine(Engine engine, const std::string& library_dir) {
  return FindFactory(engine, library_dir).status();
}

absl::StatusOr<std::unique_ptr<EngineLibrary>> LoadEngine(Engine engine,
                                                          const std::string& library_dir,
                                                          const LibrarySetup& setup) {
  ASSIGN_OR_RETURN(LibraryFactory* const factory, FindFactory(engine, library_dir));
  return std::unique_ptr<EngineLibrary>(factory(setup));
}

}  // namespace lockstep
