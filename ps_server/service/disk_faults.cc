#include "ps_server/service/disk_faults.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lockstep {

class DiskFaults::File final : public WritableFile {
 public:
  File(const DiskFaults& disk, std::unique_ptr<WritableFile> file, std::string path)
      : disk_(disk), file_(std::move(file)), path_(std::move(path)) {}
  absl::Status Append(std::span<const std::byte> bytes) override {
    RETURN_IF_ERROR(disk_.Room(path_));
    return file_->Append(bytes);
  }
  absl::Status Sync() override { return file_->Sync(); }

 private:
  const DiskFaults& disk_;
  const std::unique_ptr<WritableFile> file_;
  const std::string path_;
};

DiskFaults::DiskFaults(std::unique_ptr<Files> files, const Clock& clock)
    : files_(std::move(files)), clock_(clock) {}

void DiskFaults::FillUp(int64_t for_ms) { full_until_ns_ = clock_.NowNs() + for_ms * kNsPerMs; }

absl::Status DiskFaults::Room(const std::string& path) const {
  if (clock_.NowNs() >= full_until_ns_) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("write ", path, ": No space left on device (planned fault DISK_FULL)"));
}

absl::Status DiskFaults::MakeFolder(const std::string& path) { return files_->MakeFolder(path); }
absl::StatusOr<std::unique_ptr<WritableFile>> DiskFaults::Create(const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files_->Create(path));
  return std::make_unique<File>(*this, std::move(file), path);
}
absl::Status DiskFaults::Rename(const std::string& from, const std::string& to) {
  return files_->Rename(from, to);
}
absl::Status DiskFaults::SyncFolder(const std::string& path) { return files_->SyncFolder(path); }
absl::Status DiskFaults::Remove(const std::string& path) { return files_->Remove(path); }
absl::StatusOr<std::vector<std::byte>> DiskFaults::Read(const std::string& path) {
  return files_->Read(path);
}
absl::StatusOr<std::vector<std::string>> DiskFaults::List(const std::string& folder) {
  return files_->List(folder);
}

}  // namespace lockstep
