#include "experiments/bench/gpu.h"

#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "experiments/analyse/proto_json.h"
#include "experiments/bench/bench_json.h"
#include "experiments/bench/work_dir.h"
#include "experiments/coordinator/processes.h"
#include "experiments/gpu_check/run.h"

namespace lockstep {
namespace {

constexpr int64_t kCheckMs = 480'000;  // it ends itself within six minutes
constexpr int kLookMs = 50;

std::string ContentOf(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

absl::StatusOr<MemberExit> RunCheck(const std::vector<std::string>& command,
                                    const std::string& log_path, const Clock& clock,
                                    const Abort& abort) {
  Processes processes;  // whose end is that of gpu_check
  RETURN_IF_ERROR(processes.Spawn({}, command, {}, log_path));
  const int64_t deadline_ns = clock.NowNs() + kCheckMs * kNsPerMs;
  while (true) {
    const std::vector<MemberExit> exits = processes.Reap();
    if (!exits.empty()) return exits[0];
    RETURN_IF_ERROR(abort.status());
    if (clock.NowNs() > deadline_ns) {
      return absl::DeadlineExceededError(
          absl::StrCat("bench gpu: gpu_check was not through after ", kCheckMs / 1000,
                       " s, though it ends itself sooner: the GPU may need a reset"));
    }
    pollfd wait = {abort.fd(), POLLIN, 0};
    poll(&wait, 1, kLookMs);
  }
}

}  // namespace

absl::StatusOr<GpuBenchResult> RunGpuBench(const GpuBenchArguments& arguments,
                                           const std::string& program_dir, const Clock& clock,
                                           const Abort& abort) {
  const std::string program = absl::StrCat(program_dir, "/gpu_check");
  if (access(program.c_str(), X_OK) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("bench gpu: ", program,
                     " is not built: it needs the CUDA toolkit, 12 or later (its nvcc in PATH or "
                     "/usr/local/cuda/bin); install that and build the target gpu_check"));
  }
  ASSIGN_OR_RETURN(std::string path, WorkDir::Make());
  const WorkDir work_dir(std::move(path));
  const std::string json_path = absl::StrCat(work_dir.path(), "/gpu.json");
  std::vector<std::string> command = {program, "--json", json_path};
  if (arguments.quick) command.emplace_back("--quick");
  ASSIGN_OR_RETURN(const MemberExit exit,
                   RunCheck(command, absl::StrCat(work_dir.path(), "/gpu.log"), clock, abort));
  GpuBenchResult result;
  result.table = ContentOf(exit.log_path);
  const std::string json = ContentOf(json_path);
  if (json.empty()) {
    absl::string_view words = absl::StripTrailingAsciiWhitespace(result.table);
    const bool skipped = absl::ConsumePrefix(&words, gpu::kSkipped);
    const std::string text = absl::StrCat("bench gpu: ", skipped ? "" : "gpu_check ",
                                          skipped ? "" : exit.how, skipped ? "" : ": ", words);
    return skipped ? absl::FailedPreconditionError(text) : absl::UnavailableError(text);
  }
  RETURN_IF_ERROR(FromJson(json, {"gpu_check file", kBenchSchema}, &result.file));
  const bool right = result.file.correctness().wrong().empty();
  if (!exit.clean && right) {
    const auto& notes = result.file.notes();
    result.status = absl::UnavailableError(absl::StrCat(
        "bench gpu: ", notes.empty() ? "gpu_check " + exit.how : notes[notes.size() - 1]));
  }
  return result;
}

}  // namespace lockstep
