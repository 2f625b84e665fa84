#include "experiments/cli/out_dir.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

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

std::string DefaultDir(const std::string& name, const std::string& started_at) {
  const std::string base =
      absl::StrCat("runs/", absl::StrReplaceAll(started_at, {{":", "-"}}), "-", name);
  std::string dir = base;
  for (int copy = 2; fs::exists(dir); ++copy) dir = absl::StrCat(base, "-", copy);
  return dir;
}

}  // namespace

absl::StatusOr<std::string> MakeOutDir(const std::string& requested, const std::string& name,
                                       const std::string& started_at) {
  std::string dir = requested.empty() ? DefaultDir(name, started_at) : requested;
  while (dir.size() > 1 && dir.back() == '/') dir.pop_back();
  RETURN_IF_ERROR(CheckFree(dir));
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("cannot create ", dir));
  return dir;
}

}  // namespace lockstep
