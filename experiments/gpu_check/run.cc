#include "experiments/gpu_check/run.h"

#include <dlfcn.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "experiments/gpu_check/check.h"
#include "experiments/gpu_check/quickstart.h"
#include "experiments/gpu_check/report.h"
#include "experiments/gpu_check/sweep.h"

namespace lockstep::gpu {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kAllOfIt{350};
constexpr seconds kCorrectness{150};
constexpr seconds kQuickstartWay{40};
constexpr int kMissing = 77;

std::string NcclText() {
  void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::string("not here: ") + dlerror();
  using GetVersion = int(int*);
  void* const symbol = dlsym(library, "ncclGetVersion");
  int version = 0;
  if (symbol == nullptr || reinterpret_cast<GetVersion*>(symbol)(&version) != 0) {
    return "libnccl.so.2 does not tell its version";
  }
  Dl_info info{};
  dladdr(symbol, &info);
  return std::to_string(version) + ", " + (info.dli_fname == nullptr ? "?" : info.dli_fname);
}

Answer CheckAll(Runtime* runtime, const RunOptions& options, steady_clock::time_point start,
                CheckReport* report) {
  const std::vector<int> one = {0};
  std::vector<int> all;
  for (int device = 0; device < report->devices && device < 8; ++device) all.push_back(device);
  const auto several = static_cast<int32_t>(all.size());
  const std::vector<int64_t> counts = options.quick
                                          ? std::vector<int64_t>{0, 1, 3, 4097, 200'003}
                                          : std::vector<int64_t>{0, 1, 3, 4097, 1'000'003};
  Answer answer = MeasureRoof(runtime, 0, report);
  if (answer.ok()) answer = MeasureEmptyLaunch(runtime, 0, report);
  if (answer.ok()) {
    answer = CheckKernels(
        {.runtime = runtime,
         .devices = one,
         .ranks = options.quick ? std::vector<int32_t>{1, 3} : std::vector<int32_t>{1, 2, 3, 4, 8},
         .counts = counts,
         .end = start + kCorrectness},
        report);
  }
  if (answer.ok() && several > 1) {
    answer = CheckKernels({.runtime = runtime,
                           .devices = all,
                           .ranks = {2, several},
                           .counts = counts,
                           .end = start + kCorrectness},
                          report);
  }
  if (!answer.ok()) return answer;
  if (!options.quick) {
    RunQuickstart({.program_dir = options.program_dir, .limit = kQuickstartWay}, report);
  }
  SweepPlan plan{.runtime = runtime,
                 .devices = one,
                 .ranks = {4, 2, 8},
                 .sizes = {1 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20},
                 .end = start + kAllOfIt};
  if (options.quick) {
    plan.ranks = {2};
    plan.sweep_bytes = 64 << 10;
    plan.sizes = {1 << 10, 64 << 10};
    plan.quick = true;
  }
  answer = Sweep(plan, report);
  if (answer.ok() && several > 1 && !options.quick) {
    plan.devices = all;
    plan.ranks = {several};
    answer = Sweep(plan, report);
  }
  return answer;
}

}  // namespace

int RunGpuCheck(Runtime* runtime, const RunOptions& options) {
  const steady_clock::time_point start = steady_clock::now();
  CheckReport report;
  report.driver = runtime->State();
  const Answer here = Judge(report.driver, 1);
  if (!here.ok()) {
    std::cout << kSkipped << here.message << "\n";
    return kMissing;
  }
  report.nccl = NcclText();
  report.devices = report.driver.devices;
  report.device = runtime->Describe(0);
  const Answer answer = CheckAll(runtime, options, start, &report);
  if (!answer.ok()) report.notes.push_back("ended early: " + answer.message);
  report.seconds = std::chrono::duration<double>(steady_clock::now() - start).count();
  if (!options.json.empty()) {
    std::ofstream file(options.json);
    PrintJson(report, file);
    if (!file.flush()) {
      std::cerr << "gpu_check: can't write " << options.json << "\n";
      return 4;
    }
  }
  PrintTable(report, std::cout);
  if (!report.wrong.empty()) return 1;
  return answer.ok() ? 0 : 4;
}

int GpuCheckMain(Runtime* runtime, int argc, char** argv) {
  RunOptions options;
  std::error_code unknown;  // then there is no quickstart
  options.program_dir =
      std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path().string();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--quick") {
      options.quick = true;
    } else if (arguments[i] == "--json" && i + 1 < arguments.size()) {
      options.json = arguments[++i];
    } else {
      std::cerr << "usage: gpu_check [--quick] [--json FILE]\n";
      return 2;
    }
  }
  return RunGpuCheck(runtime, options);
}

}  // namespace lockstep::gpu
