#include "experiments/bench/work_dir.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lockstep {

absl::StatusOr<std::string> WorkDir::Make() {
  std::string path =
      absl::StrCat(std::filesystem::temp_directory_path().string(), "/lockstep-bench-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) return ErrnoStatus(errno, "bench: temporary folder");
  return path;
}

WorkDir::~WorkDir() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

std::string RandomToken() {
  std::random_device random;
  return absl::StrCat(absl::Hex(random(), absl::kZeroPad8), absl::Hex(random(), absl::kZeroPad8));
}

int64_t AvailableBytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  int64_t kib = 0;
  while (file >> name >> kib) {
    if (name == "MemAvailable:") return kib << 10;
    file.ignore(64, '\n');
  }
  return INT64_MAX;
}

}  // namespace lockstep
