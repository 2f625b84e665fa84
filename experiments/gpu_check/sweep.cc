#include "experiments/gpu_check/sweep.h"

#include <algorithm>
#include <memory>
#include <string>

#include "allreduce/cuda/launch.h"
#include "experiments/gpu_check/check.h"
#include "experiments/gpu_check/memory.h"

namespace lockstep::gpu {
namespace {

constexpr int64_t kTimeoutMs = 10'000;
constexpr std::chrono::milliseconds kTimed(20'000);  // behind the kernels' own deadline
constexpr int64_t kPacketBytesMax = int64_t{1} << 20;
constexpr int64_t kPullBytesMax = int64_t{16} << 20;
constexpr int64_t kCheckedBytesMax = int64_t{1} << 20;

// Two events on a stream; the time between them.
class Stopwatch {
 public:
  Stopwatch(Runtime* runtime, int device, void* stream)
      : runtime_(*runtime), device_(device), stream_(stream) {
    made_ = runtime_.MakeEvent(device_, &begin_);
    if (made_.ok()) made_ = runtime_.MakeEvent(device_, &end_);
  }
  ~Stopwatch() {
    for (void* const event : {begin_, end_}) {
      if (event != nullptr) runtime_.DestroyEvent(device_, event);
    }
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  // How long the device is at what `enqueue` puts on the stream; waits for its end.
  template <typename Enqueue>
  Answer Time(const Enqueue& enqueue, double* elapsed_us) {
    Answer answer = made_;
    if (answer.ok()) answer = runtime_.Record(device_, stream_, begin_);
    if (answer.ok()) answer = enqueue();
    if (answer.ok()) answer = runtime_.Record(device_, stream_, end_);
    if (answer.ok()) answer = AwaitStream(&runtime_, device_, stream_, kTimed, "a timed launch");
    if (answer.ok()) answer = runtime_.ElapsedUs(device_, begin_, end_, elapsed_us);
    return answer;
  }

 private:
  Runtime& runtime_;
  const int device_;
  void* const stream_;
  void* begin_ = nullptr;
  void* end_ = nullptr;
  Answer made_;
};

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The p-th part of all, from the least.
double QuantileOf(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(p * static_cast<double>(values.size() - 1))];
}

// Launches `repeats` times behind two that warm up.
Answer Time(Runtime* runtime, KernelGroup* group, const CheckMemory& memory, const CallSpec& call,
            int repeats, TimeRow* row) {
  Stopwatch watch(runtime, group->device(0), group->stream(0));
  std::vector<double> times_us;
  for (int i = -2; i < repeats; ++i) {
    double elapsed_us = 0;
    Answer answer = watch.Time(
        [&] {
          return group->Launch(call, memory.Inputs(0), memory.Outputs(0, /*in_place=*/false),
                               kTimeoutMs);
        },
        &elapsed_us);
    if (answer.ok()) answer = group->Wait();
    if (!answer.ok()) return answer;
    if (i >= 0) times_us.push_back(elapsed_us);
  }
  row->bytes = call.count * SizeOf(call.dtype);
  row->p50_us = MedianOf(times_us);
  row->p99_us = QuantileOf(times_us, 0.99);
  row->min_us = *std::min_element(times_us.begin(), times_us.end());
  return {};
}

bool HasSlots(Kernel kernel) {
  return kernel == Kernel::kRing || kernel == Kernel::kTree || kernel == Kernel::kDoubleTree;
}

std::vector<TimeRow> SettingsOf(Kernel kernel, int32_t ranks, bool quick) {
  const std::vector<int32_t> channel_counts =
      quick ? std::vector<int32_t>{2} : std::vector<int32_t>{4, 8, 16, 32, 64};
  std::vector<TimeRow> settings;
  for (const int32_t channels : channel_counts) {
    for (const int threads : {256, 512}) {
      for (const int64_t slot_bytes : {16 << 10, 32 << 10, 128 << 10}) {
        for (const int32_t slots : {2, 4, 8}) {
          if (!HasSlots(kernel) && (slots != 2 || slot_bytes != 16 << 10)) continue;
          TimeRow row;
          row.spec = {.kernel = kernel,
                      .world_size = ranks,
                      .channels = channels,
                      .slots = slots,
                      .slot_bytes = slot_bytes,
                      .packet_bytes = kernel == Kernel::kPacket ? kPacketBytesMax : 0};
          row.threads = threads;
          settings.push_back(row);
        }
      }
    }
  }
  return settings;
}

class Sweeper {
 public:
  Sweeper(const SweepPlan& plan, int32_t ranks, CheckMemory* memory, CheckReport* report)
      : plan_(plan), ranks_(ranks), memory_(*memory), report_(*report) {}

  Answer Run(Kernel kernel) {
    int64_t bytes_max = plan_.sweep_bytes;
    if (kernel == Kernel::kPacket) bytes_max = kPacketBytesMax;
    if (kernel == Kernel::kPull) bytes_max = kPullBytesMax;
    TimeRow best;
    for (TimeRow row : SettingsOf(kernel, ranks_, plan_.quick)) {
      if (TimeIsUp()) break;
      Answer answer = TimeOne(std::min(bytes_max, plan_.sweep_bytes), &row);
      if (answer.why == Refused::kTooManyBlocks) continue;
      if (!answer.ok()) return answer;
      if (best.threads == 0 || row.p50_us < best.p50_us) best = row;
    }
    if (best.threads == 0) return {};
    for (const int64_t bytes : plan_.sizes) {
      const bool large = kernel == Kernel::kPacket || kernel == Kernel::kPull;
      if ((large && bytes > bytes_max) || TimeIsUp()) continue;
      TimeRow row = best;
      Answer answer = TimeOne(bytes, &row);
      if (answer.ok()) answer = CheckOne(&row);
      if (!answer.ok()) return answer;
      report_.best.push_back(row);
    }
    return {};
  }

 private:
  bool TimeIsUp() const { return std::chrono::steady_clock::now() > plan_.end; }

  Answer TimeOne(int64_t bytes, TimeRow* row) {
    std::unique_ptr<KernelGroup> group;
    Answer answer = MakeGroup(plan_.runtime, plan_.devices, row->spec, row->threads, &group);
    if (!answer.ok()) return answer;
    row->devices = group->devices();
    const CallSpec call{.count = bytes / SizeOf(Dtype::kF32)};
    return Time(plan_.runtime, group.get(), memory_, call, bytes > (int64_t{1} << 20) ? 7 : 21,
                row);
  }

  // Every element of one more call, where comparing takes no longer than timing did.
  Answer CheckOne(TimeRow* row) {
    if (row->bytes > kCheckedBytesMax) return {};
    std::unique_ptr<KernelGroup> group;
    Answer answer = MakeGroup(plan_.runtime, plan_.devices, row->spec, row->threads, &group);
    const CallSpec call{.count = row->bytes / SizeOf(Dtype::kF32)};
    if (answer.ok()) answer = memory_.Fill(call, 0);
    if (answer.ok()) {
      answer = group->Launch(call, memory_.Inputs(0), memory_.Outputs(0, /*in_place=*/false),
                             kTimeoutMs);
    }
    if (answer.ok()) answer = group->Wait();
    std::string wrong;
    if (answer.ok()) answer = memory_.Compare(call, 0, /*in_place=*/false, &wrong);
    row->correct = wrong.empty();
    if (!wrong.empty()) {
      report_.wrong.push_back(std::string(NameOf(row->spec.kernel)) + ": " + wrong);
    }
    return answer;
  }

  const SweepPlan& plan_;
  const int32_t ranks_;
  CheckMemory& memory_;
  CheckReport& report_;
};

}  // namespace

Answer MeasureRoof(Runtime* runtime, int device, CheckReport* report) {
  const int64_t bytes = std::min(int64_t{1} << 30, report->device.memory_bytes / 8);
  std::unique_ptr<CheckMemory> memory;
  Answer answer = CheckMemory::Make(runtime, {device}, bytes, &memory);
  void* stream = nullptr;
  if (answer.ok()) answer = runtime->MakeStream(device, &stream);
  if (!answer.ok()) return answer;
  std::vector<double> times_us;
  {
    Stopwatch watch(runtime, device, stream);
    for (int i = -2; i < 20 && answer.ok(); ++i) {
      double elapsed_us = 0;
      answer = watch.Time(
          [&] {
            return runtime->Copy(device, stream, memory->Outputs(0, false)[0], memory->Inputs(0)[0],
                                 bytes);
          },
          &elapsed_us);
      if (i >= 0) times_us.push_back(elapsed_us);
    }
  }
  runtime->DestroyStream(device, stream);
  if (answer.ok()) report->roof_gb_s = 2.0 * static_cast<double>(bytes) / MedianOf(times_us) / 1e3;
  return answer;
}

Answer MeasureEmptyLaunch(Runtime* runtime, int device, CheckReport* report) {
  std::unique_ptr<CheckMemory> memory;
  Answer answer = CheckMemory::Make(runtime, {device, device}, 64, &memory);
  std::unique_ptr<KernelGroup> group;
  const KernelSpec spec{
      .kernel = Kernel::kPacket, .world_size = 2, .channels = 4, .packet_bytes = 1024};
  if (answer.ok()) answer = MakeGroup(runtime, {device}, spec, /*threads=*/256, &group);
  TimeRow row;
  if (answer.ok()) answer = Time(runtime, group.get(), *memory, {.count = 0}, 51, &row);
  report->empty_launch_us = row.p50_us;
  return answer;
}

Answer Sweep(const SweepPlan& plan, CheckReport* report) {
  const int64_t largest =
      std::max(plan.sweep_bytes, *std::max_element(plan.sizes.begin(), plan.sizes.end()));
  for (const int32_t ranks : plan.ranks) {
    std::unique_ptr<CheckMemory> memory;
    Answer answer =
        CheckMemory::Make(plan.runtime, DevicesOfRanks(plan.devices, ranks), largest, &memory);
    if (answer.ok()) answer = memory->Fill({.count = largest / SizeOf(Dtype::kF32)}, 0);
    if (!answer.ok()) return answer;
    Sweeper sweeper(plan, ranks, memory.get(), report);
    for (const Kernel kernel : kKernels) {
      answer = sweeper.Run(kernel);
      if (!answer.ok()) return answer;
    }
  }
  if (std::chrono::steady_clock::now() > plan.end) {
    report->notes.push_back("the sweep ended early: its time was up");
  }
  return {};
}

}  // namespace lockstep::gpu
