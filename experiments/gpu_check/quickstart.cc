#include "experiments/gpu_check/quickstart.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::gpu {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr int kMissing = 4;  // `lockstep`: the environment lacks something
constexpr std::chrono::milliseconds kLook{20};

constexpr char kSpec[] = R"(name: "gpu-quickstart"
model { mlp { layers: [64, 256, 256, 10] } } data { digits {} }
train { global_batch: 128 steps: 20 optimizer { sgd { learning_rate: 0.1 momentum: 0.9 } } }
blocks: 1 workers: 2 reduction_order: EXACT device: GPU share_gpu: true
variant { name: "ring" all_reduce { algorithm: RING } }
variant { name: "ps_sync" ps { mode: SYNC } }
variant { name: "cuda" all_reduce { engine: CUDA algorithm: RING cuda { share_gpu: true } } }
variant { name: "nccl" all_reduce { engine: NCCL nccl { share_gpu: true } } }
)";
constexpr const char* kWays[] = {"ring", "ps_sync", "cuda", "nccl"};

std::string Read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string LastLine(const std::string& text) {
  const size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return "it says nothing";
  const size_t start = text.rfind('\n', end);
  return text.substr(start + 1, end - start);  // npos + 1 is 0
}

// The exit code; 128 + signal when it was killed; -1: not through in time.
int Await(pid_t pid, std::chrono::milliseconds limit) {
  const auto end = steady_clock::now() + limit;
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (steady_clock::now() < end) {
      std::this_thread::sleep_for(kLook);
      continue;
    }
    kill(-pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// In a process group of its own, its output in `log`.
pid_t Start(std::vector<std::string> words, const std::string& log) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  setpgid(0, 0);
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(file, STDOUT_FILENO);
  dup2(file, STDERR_FILENO);
  execv(arguments[0], arguments.data());
  _exit(127);
}

// Of the only variant in a run.json; empty: none.
std::string HashIn(const std::string& json) {
  const size_t key = json.find("\"final_hash\"");
  const size_t open = json.find('"', json.find(':', key) + 1);
  if (key == std::string::npos || open == std::string::npos) return "";
  return json.substr(open + 1, json.find('"', open + 1) - open - 1);
}

class Quickstart {
 public:
  // In `dir`, which goes with this object.
  Quickstart(const QuickstartPlan& plan, fs::path dir, CheckReport* report)
      : plan_(plan), report_(*report), dir_(std::move(dir)) {
    std::ofstream(dir_ / "spec.textproto") << kSpec;
  }
  ~Quickstart() {
    std::error_code ignored;
    fs::remove_all(dir_, ignored);
  }
  Quickstart(const Quickstart&) = delete;
  Quickstart& operator=(const Quickstart&) = delete;

  void Run(const std::string& way) {
    const fs::path out = dir_ / way;
    const std::string log = dir_ / (way + ".log");
    const pid_t pid = Start({plan_.program_dir + "/lockstep", "compare", dir_ / "spec.textproto",
                             "--only", way, "--out", out, "--plain"},
                            log);
    const int code = pid < 0 ? 127 : Await(pid, plan_.limit);
    const std::string name = "quickstart on a GPU, " + way + ": ";
    const std::string says = LastLine(Read(log));
    if (code == kMissing) {
      report_.notes.push_back(name + "skipped: " + says);
    } else if (code != 0) {
      report_.wrong.push_back(name + (code < 0 ? "not through in time; " : "") + "exit code " +
                              std::to_string(code) + ": " + says);
    } else {
      TakeHash(name, HashIn(Read(out / "run.json")));
    }
  }

 private:
  void TakeHash(const std::string& name, const std::string& hash) {
    if (hash_.empty()) hash_ = hash;
    if (hash.empty() || hash != hash_) {
      report_.wrong.push_back(name + "parameter hash '" + hash + "', expected '" + hash_ + "'");
    } else {
      report_.notes.push_back(name + "ends with hash " + hash + " (correctness only)");
    }
    ++report_.cases;
  }

  const QuickstartPlan& plan_;
  CheckReport& report_;
  const fs::path dir_;
  std::string hash_;  // of the first way that ended
};

}  // namespace

void RunQuickstart(const QuickstartPlan& plan, CheckReport* report) {
  if (!fs::exists(plan.program_dir + "/lockstep")) {
    report->notes.emplace_back("quickstart on a GPU: skipped: no lockstep beside gpu_check");
    return;
  }
  std::string dir = fs::temp_directory_path() / "gpu_check-XXXXXX";
  if (mkdtemp(dir.data()) == nullptr) {
    report->notes.push_back("quickstart on a GPU: skipped: can't make the folder " + dir);
    return;
  }
  Quickstart quickstart(plan, dir, report);
  for (const char* const way : kWays) quickstart.Run(way);
}

}  // namespace lockstep::gpu
