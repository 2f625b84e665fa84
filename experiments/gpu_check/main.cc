// gpu_check: everything that has to be known of a machine with a GPU, in one command of at most 6
// minutes: versions, the device's copy as a roof, every kernel's results, a sweep of settings. One
// JSON file and a short table. Exit: 0 all right, 1 a result was wrong, 2 usage, 4 the device
// failed, 77 there is no GPU to check, with the reason.
#include <dlfcn.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "allreduce/cuda/runtime.h"
#include "experiments/gpu_check/check.h"
#include "experiments/gpu_check/report.h"
#include "experiments/gpu_check/sweep.h"

namespace lockstep::gpu {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kAllOfIt{350};
constexpr seconds kCorrectness{150};
constexpr int kMissing = 77;

struct Options {
  bool quick = false;  // results alone, few lengths: a test
  std::string json;
};

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

Answer CheckAll(const Options& options, steady_clock::time_point start, CheckReport* report) {
  const std::unique_ptr<Runtime> runtime = MakeCudaRuntime();
  const std::vector<int> one = {0};
  std::vector<int> all;
  for (int device = 0; device < report->devices && device < 8; ++device) all.push_back(device);
  const auto several = static_cast<int32_t>(all.size());
  const std::vector<int64_t> counts = options.quick
                                          ? std::vector<int64_t>{0, 1, 3, 4097, 200'003}
                                          : std::vector<int64_t>{0, 1, 3, 4097, 1'000'003};
  Answer answer = MeasureRoof(0, report);
  if (answer.ok()) answer = MeasureEmptyLaunch(runtime.get(), 0, report);
  if (answer.ok()) {
    answer = CheckKernels(
        {.runtime = runtime.get(),
         .devices = one,
         .ranks = options.quick ? std::vector<int32_t>{1, 3} : std::vector<int32_t>{1, 2, 3, 4, 8},
         .counts = counts,
         .end = start + kCorrectness},
        report);
  }
  if (answer.ok() && several > 1) {
    answer = CheckKernels({.runtime = runtime.get(),
                           .devices = all,
                           .ranks = {2, several},
                           .counts = counts,
                           .end = start + kCorrectness},
                          report);
  }
  if (!answer.ok() || options.quick) return answer;
  SweepPlan plan{.runtime = runtime.get(),
                 .devices = one,
                 .ranks = {4, 2, 8},
                 .sizes = {1 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20},
                 .end = start + kAllOfIt};
  answer = Sweep(plan, report);
  if (answer.ok() && several > 1) {
    plan.devices = all;
    plan.ranks = {several};
    answer = Sweep(plan, report);
  }
  return answer;
}

int Run(const Options& options) {
  const steady_clock::time_point start = steady_clock::now();
  CheckReport report;
  report.driver = ReadDriverState();
  const Answer here = Judge(report.driver, 1);
  if (!here.ok()) {
    std::cout << "gpu_check: skipped: " << here.message << "\n";
    return kMissing;
  }
  report.nccl = NcclText();
  report.devices = report.driver.devices;
  report.device = DescribeDevice(0);
  const Answer answer = CheckAll(options, start, &report);
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

int Usage() {
  std::cerr << "usage: gpu_check [--quick] [--json FILE]\n";
  return 2;
}

}  // namespace
}  // namespace lockstep::gpu

int main(int argc, char** argv) {
  lockstep::gpu::Options options;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--quick") {
      options.quick = true;
    } else if (arguments[i] == "--json" && i + 1 < arguments.size()) {
      options.json = arguments[++i];
    } else {
      return lockstep::gpu::Usage();
    }
  }
  return lockstep::gpu::Run(options);
}
