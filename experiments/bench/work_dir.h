// work_dir.h: what every bench needs of its surroundings: a folder for sockets and logs, gone with
// the object; a secret for its processes; how much memory is free. Linux. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace lockstep {

class WorkDir {
 public:
  // Errors: Internal or what errno says (no place for temporary files).
  static absl::StatusOr<std::string> Make();
  explicit WorkDir(std::string path) : path_(std::move(path)) {}
  ~WorkDir();
  WorkDir(const WorkDir&) = delete;
  WorkDir& operator=(const WorkDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

std::string RandomToken();

// Free for new processes; INT64_MAX where nothing says it.
int64_t AvailableBytes();

}  // namespace lockstep
