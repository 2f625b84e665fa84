#include "allreduce/transport/shm_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

// The number in a file of one number; none: "max", or no such file.
std::optional<int64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  if (!(file >> number)) return std::nullopt;
  return number;
}

// The value behind `key` in a file of lines "key value".
std::optional<int64_t> ReadField(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    int64_t value = 0;
    if (words >> name >> value && name == key) return value;
  }
  return std::nullopt;
}

struct CgroupFiles {
  std::string root;
  std::string limit;
  std::string usage;
  std::string reclaimable;  // a field of memory.stat: page cache that is given up first
};

// The room below the limits of a cgroup and of all those around it.
int64_t RoomIn(const CgroupFiles& files, std::string path) {
  int64_t room = kUnlimited;
  while (true) {
    const std::string folder = absl::StrCat(files.root, path, "/");
    const std::optional<int64_t> limit = ReadNumber(folder + files.limit);
    const std::optional<int64_t> usage = ReadNumber(folder + files.usage);
    if (limit.has_value() && usage.has_value()) {
      const int64_t cache = ReadField(folder + "memory.stat", files.reclaimable).value_or(0);
      room = std::min(room, std::max<int64_t>(0, *limit - *usage + cache));
    }
    if (path.empty()) return room;
    path.erase(path.rfind('/'));
  }
}

// Lines of /proc/self/cgroup: "0::/path" (version 2), "4:memory:/path" (version 1).
int64_t CgroupRoom() {
  const CgroupFiles v2{"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
  const CgroupFiles v1{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                       "total_inactive_file"};
  int64_t room = kUnlimited;
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const size_t slash = line.find(":/");
    if (slash == std::string::npos) continue;
    std::string path = line.substr(slash + 1);
    if (path == "/") path.clear();
    if (line.rfind("0::", 0) == 0) room = std::min(room, RoomIn(v2, path));
    if (line.find(":memory:") != std::string::npos) room = std::min(room, RoomIn(v1, path));
  }
  return room;
}

int64_t FileSizeLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnlimited;
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, static_cast<rlim_t>(kUnlimited)));
}

absl::Status TooLittle(const std::string& needed, int64_t available) {
  return absl::ResourceExhaustedError(
      absl::StrCat("shared memory: ", needed, ", available are ", available,
                   " (the least of MemAvailable, memory cgroups and the file size limit); use "
                   "fewer ranks or smaller buffers, or free memory"));
}

}  // namespace

int64_t AvailableMemoryBytes() {
  constexpr int64_t kKib = 1024;
  const std::optional<int64_t> free_kib = ReadField("/proc/meminfo", "MemAvailable:");
  const int64_t host = free_kib.has_value() ? *free_kib * kKib : kUnlimited;
  return std::min({host, CgroupRoom(), FileSizeLimit()});
}

absl::Status CheckMemory(int64_t bytes, int ranks) {
  const int64_t available = AvailableMemoryBytes();
  if (bytes <= available / ranks) return absl::OkStatus();
  return TooLittle(absl::StrCat(ranks, " ranks need ", bytes, " bytes each"), available);
}

int64_t PageAligned(int64_t bytes) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  return (bytes + page - 1) / page * page;
}

absl::StatusOr<UniqueFd> MakeSharedFile() {
  constexpr const char* kName = "lockstep";  // shown in /proc/<pid>/maps
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  UniqueFd fd(memfd_create(kName, kFlags | MFD_NOEXEC_SEAL));
  if (!fd.valid() && errno == EINVAL) fd = UniqueFd(memfd_create(kName, kFlags));  // before 6.3
  if (!fd.valid()) return ErrnoStatus(errno, "shared memory: memfd_create");
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
    return ErrnoStatus(errno, "shared memory: F_SEAL_SHRINK");
  }
  return fd;
}

absl::Status CheckSharedFile(int fd, int64_t bytes) {
  struct stat file {};
  if (fstat(fd, &file) != 0) return ErrnoStatus(errno, "shared memory of a peer");
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return absl::InvalidArgumentError("shared memory of a peer: it could be cut short");
  }
  if (file.st_size < bytes) {
    return absl::InvalidArgumentError(absl::StrCat("shared memory of a peer: it has ", file.st_size,
                                                   " bytes, expected at least ", bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Grow(int fd, int64_t bytes) {
  struct stat file {};
  if (fstat(fd, &file) != 0) return ErrnoStatus(errno, "shared memory");
  const int64_t available = AvailableMemoryBytes();
  const std::string needed = absl::StrCat(bytes, " bytes are needed");
  if (bytes > available || file.st_size > FileSizeLimit() - bytes) {
    return TooLittle(needed, available);
  }
  while (fallocate(fd, 0, file.st_size, bytes) != 0) {
    if (errno == EINTR) continue;
    if (errno == ENOSPC || errno == ENOMEM || errno == EFBIG) return TooLittle(needed, available);
    return ErrnoStatus(errno, "shared memory: fallocate");
  }
  return file.st_size;
}

absl::StatusOr<SharedMapping> MapShared(int fd, int64_t offset, int64_t bytes) {
  const auto length = static_cast<size_t>(bytes);
  void* const start = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
                           static_cast<off_t>(offset));
  if (start == MAP_FAILED) {
    return ErrnoStatus(errno, absl::StrCat("shared memory: cannot map ", bytes, " bytes"));
  }
  return SharedMapping(static_cast<std::byte*>(start),
                       [length](std::byte* mapped) { munmap(mapped, length); });
}

}  // namespace lockstep
