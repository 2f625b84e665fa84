#include "experiments/cli/out_dir.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr char kRuns[] = "runs";

absl::Status CheckFree(const std::string& dir) {
  std::error_code error;
  const fs::file_status status = fs::status(dir, error);
  if (!fs::exists(status)) return absl::OkStatus();
  if (!fs::is_directory(status)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--out ", dir, " is a file; results need a folder of their own"));
  }
  const bool empty = fs::is_empty(dir, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("cannot read ", dir));
  if (!empty) {
    return absl::AlreadyExistsError(absl::StrCat(
        "--out ", dir, " is not empty; nothing is overwritten, choose another folder"));
  }
  return absl::OkStatus();
}

// The nearest folder above `dir`, or `dir` itself, that exists takes new files.
absl::Status CheckWritable(const std::string& dir) {
  fs::path nearest = fs::path(dir);
  std::error_code error;
  while (!nearest.empty() && !fs::exists(nearest, error)) nearest = nearest.parent_path();
  if (nearest.empty()) nearest = ".";
  if (!fs::is_directory(nearest, error)) {
    return absl::InvalidArgumentError(absl::StrCat("--out ", dir, ": ", nearest.string(),
                                                   " is a file, no folder can be made below it"));
  }
  if (access(nearest.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("results would go to ", dir, ", but ", nearest.string(),
                                         " is not writable"));
}

std::string WithoutLastSlash(std::string dir) {
  while (dir.size() > 1 && dir.back() == '/') dir.pop_back();
  return dir;
}

// create_directory says who was first, so two comparisons never share a folder.
absl::StatusOr<std::string> MakeDefaultDir(const std::string& name, const std::string& started_at) {
  const std::string base =
      absl::StrCat(kRuns, "/", absl::StrReplaceAll(started_at, {{":", "-"}}), "-", name);
  std::error_code error;
  fs::create_directories(kRuns, error);
  std::string dir = base;
  for (int copy = 2; !error && !fs::create_directory(dir, error); ++copy) {
    dir = absl::StrCat(base, "-", copy);
  }
  if (error) return ErrnoStatus(error.value(), absl::StrCat("cannot create ", dir));
  return dir;
}

}  // namespace

absl::Status CheckOutDir(const std::string& requested) {
  if (requested.empty()) return CheckWritable(kRuns);
  const std::string dir = WithoutLastSlash(requested);
  RETURN_IF_ERROR(CheckFree(dir));
  return CheckWritable(dir);
}

absl::StatusOr<std::string> MakeOutDir(const std::string& requested, const std::string& name,
                                       const std::string& started_at) {
  RETURN_IF_ERROR(CheckOutDir(requested));
  if (requested.empty()) return MakeDefaultDir(name, started_at);
  const std::string dir = WithoutLastSlash(requested);
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("cannot create ", dir));
  return dir;
}

}  // namespace lockstep
