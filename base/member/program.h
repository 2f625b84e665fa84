// program.h: how our programs read their flags and end: CLI11 reports by exception, and none goes
// further than here. For main files only: CLI11's header is large. Threads: main.
#pragma once

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "base/exit_code.h"

namespace lockstep {

// Nothing: go on. Otherwise the exit code, and --help or the error has been printed.
inline std::optional<int> ParseFlags(CLI::App* app, int argc, char** argv) {
  try {
    app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app->exit(error) == 0 ? kExitOk : kExitUsage;
  }
  return std::nullopt;
}

// The folder of this program: those that it starts or loads are beside it.
inline std::string ProgramDir() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

// "NAME=value" of those of this process's variables whose names begin so.
inline std::vector<std::string> VariablesOf(std::string_view prefix) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::string_view(*entry).substr(0, prefix.size()) == prefix) variables.emplace_back(*entry);
  }
  return variables;
}

// Runs a program's main. What the libraries throw (we don't) ends it as an internal error.
inline int RunProgram(const char* name, int (*program)(int, char**), int argc, char** argv) {
#ifdef NDEBUG
  // Debian's Abseil looks for cycles at every lock, also those of gRPC.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
  try {
    return program(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return kExitInternal;
  }
}

}  // namespace lockstep
