// files.h: the few things that storage asks of a file system, so that tests can have one that
// refuses. Errors: as errno, with operation and path: disk full is ResourceExhausted, NotFound
// where there is none. Threads: any.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep {

class WritableFile {
 public:
  virtual ~WritableFile() = default;  // closes
  virtual absl::Status Append(std::span<const std::byte> bytes) = 0;
  virtual absl::Status Sync() = 0;  // what was appended is on the disk
};

class Files {
 public:
  virtual ~Files() = default;
  virtual absl::Status MakeFolder(
      const std::string& path) = 0;  // and those above; OK if it is there
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status SyncFolder(const std::string& path) = 0;  // its names are on the disk
  virtual absl::Status Remove(const std::string& path) = 0;      // a file, or an empty folder
  virtual absl::StatusOr<std::vector<std::byte>> Read(const std::string& path) = 0;
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& folder) = 0;  // sorted
};

// The system's.
std::unique_ptr<Files> MakeFiles();

}  // namespace lockstep
