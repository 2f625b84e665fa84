#include "experiments/analyse/run_json.h"

#include <cerrno>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "experiments/analyse/atomic_file.h"
#include "experiments/analyse/proto_json.h"

namespace lockstep {
namespace {

constexpr JsonKind kRunJson = {"run file", kRunSchema};

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

absl::StatusOr<std::string> RunToJson(const RunFile& run) { return ToJson(run, kRunJson); }

absl::StatusOr<RunFile> RunFromJson(const std::string& json) {
  RunFile run;
  RETURN_IF_ERROR(FromJson(json, kRunJson, &run));
  return run;
}

absl::Status WriteRunJson(const std::string& path, const RunFile& run) {
  ASSIGN_OR_RETURN(const std::string json, RunToJson(run));
  return WriteFileAtomically(path, json);
}

absl::StatusOr<RunFile> ReadRunJson(const std::string& path) {
  const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "rbe"));
  if (file == nullptr) return ErrnoStatus(errno, absl::StrCat("read ", path));
  std::string json;
  char buffer[1 << 16];
  size_t count = 0;
  while ((count = std::fread(buffer, 1, sizeof(buffer), file.get())) > 0) {
    json.append(buffer, count);
  }
  if (std::ferror(file.get()) != 0) return ErrnoStatus(errno, absl::StrCat("read ", path));
  absl::StatusOr<RunFile> run = RunFromJson(json);
  if (!run.ok()) return Annotate(run.status(), path);
  return run;
}

}  // namespace lockstep
