// disk_faults.h: a file system that a planned fault fills up: for so long nothing more can be
// written to it. Everything else is passed on. Errors: as Files; ResourceExhausted while it is
// full. Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "ps_server/service/files.h"

namespace lockstep {

class DiskFaults final : public Files {
 public:
  // `clock` must outlive it.
  DiskFaults(std::unique_ptr<Files> files, const Clock& clock);

  // No byte fits for `for_ms` from now.
  void FillUp(int64_t for_ms);

  absl::Status MakeFolder(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status SyncFolder(const std::string& path) override;
  absl::Status Remove(const std::string& path) override;
  absl::StatusOr<std::vector<std::byte>> Read(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override;

 private:
  class File;
  absl::Status Room(const std::string& path) const;

  const std::unique_ptr<Files> files_;
  const Clock& clock_;
  std::atomic<int64_t> full_until_ns_ = 0;
};

}  // namespace lockstep
