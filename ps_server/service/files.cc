#include "ps_server/service/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/socket.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr mode_t kMode = 0644;

absl::Status Failed(const char* operation, const std::string& path) {
  return ErrnoStatus(errno, absl::StrCat(operation, " ", path));
}

class SystemFile final : public WritableFile {
 public:
  SystemFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  absl::Status Append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = write(fd_.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return Failed("write", path_);
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }
  absl::Status Sync() override {
    return fdatasync(fd_.get()) == 0 ? absl::OkStatus() : Failed("fdatasync", path_);
  }

 private:
  const UniqueFd fd_;
  const std::string path_;
};

class SystemFiles final : public Files {
 public:
  absl::Status MakeFolder(const std::string& path) override {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    return error ? ErrnoStatus(error.value(), absl::StrCat("make folder ", path))
                 : absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
    if (!fd.valid()) return Failed("create", path);
    return std::make_unique<SystemFile>(std::move(fd), path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return rename(from.c_str(), to.c_str()) == 0 ? absl::OkStatus()
                                                 : Failed("rename", absl::StrCat(from, " to ", to));
  }
  absl::Status SyncFolder(const std::string& path) override {
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.valid()) return Failed("open", path);
    return fsync(fd.get()) == 0 ? absl::OkStatus() : Failed("fsync", path);
  }
  absl::Status Remove(const std::string& path) override {
    return remove(path.c_str()) == 0 ? absl::OkStatus() : Failed("remove", path);
  }
  absl::StatusOr<std::vector<std::byte>> Read(const std::string& path) override {
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat about {};
    if (!fd.valid() || fstat(fd.get(), &about) != 0) return Failed("open", path);
    std::vector<std::byte> bytes(static_cast<size_t>(about.st_size));
    size_t have = 0;
    while (have < bytes.size()) {
      const ssize_t taken = read(fd.get(), bytes.data() + have, bytes.size() - have);
      if (taken < 0 && errno == EINTR) continue;
      if (taken < 0) return Failed("read", path);
      if (taken == 0) break;  // shorter than it was: its checksum says so
      have += static_cast<size_t>(taken);
    }
    bytes.resize(have);
    return bytes;
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override {
    std::error_code error;
    std::vector<std::string> names;
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      names.push_back(entry->path().filename().string());
    }
    if (error) return ErrnoStatus(error.value(), absl::StrCat("list ", folder));
    std::sort(names.begin(), names.end());
    return names;
  }
};

}  // namespace

std::unique_ptr<Files> MakeFiles() { return std::make_unique<SystemFiles>(); }

}  // namespace lockstep
