// load.h: opens the shared object of an engine. It stays loaded: the libraries leave threads and
// exit handlers behind. Errors: FailedPrecondition, naming the file, the loader's own words and
// what to install. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "allreduce/engine.h"
#include "allreduce/engine/library.h"

namespace lockstep {

absl::StatusOr<std::unique_ptr<EngineLibrary>> LoadEngine(Engine engine,
                                                          const std::string& library_dir,
                                                          const LibrarySetup& setup);

}  // namespace lockstep
