#include "experiments/analyse/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lockstep {
namespace {

absl::Status WriteAll(int descriptor, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = write(descriptor, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, "write");
    content.remove_prefix(static_cast<size_t>(written));
  }
  if (fsync(descriptor) != 0) return ErrnoStatus(errno, "flush");
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteFileAtomically(const std::string& path, std::string_view content) {
  const std::string what = absl::StrCat("write ", path);
  const std::string temporary = absl::StrCat(path, ".tmp");
  const int descriptor =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor < 0) return ErrnoStatus(errno, what);
  absl::Status status = WriteAll(descriptor, content);
  if (close(descriptor) != 0 && status.ok()) status = ErrnoStatus(errno, "close");
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus(errno, "rename");
  }
  if (!status.ok()) unlink(temporary.c_str());
  return Annotate(status, what);
}

}  // namespace lockstep
