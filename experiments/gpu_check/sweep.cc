#include "experiments/gpu_check/sweep.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <string>

#include "allreduce/cuda/launch.h"
#include "experiments/gpu_check/check.h"
#include "experiments/gpu_check/memory.h"

namespace lockstep::gpu {
namespace {

constexpr int64_t kTimeoutMs = 10'000;
constexpr int64_t kPacketBytesMax = int64_t{1} << 20;
constexpr int64_t kPullBytesMax = int64_t{16} << 20;

// Two events on a stream; the time between them.
class Stopwatch {
 public:
  Stopwatch(int device, void* stream) : stream_(static_cast<cudaStream_t>(stream)) {
    cudaSetDevice(device);  // events belong to a device
    cudaEventCreate(&begin_);
    cudaEventCreate(&end_);
  }
  ~Stopwatch() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  void Begin() { cudaEventRecord(begin_, stream_); }
  void End() { cudaEventRecord(end_, stream_); }
  // Waits for what was launched between the two.
  double ElapsedUs() const {
    float ms = 0;
    cudaEventSynchronize(end_);
    cudaEventElapsedTime(&ms, begin_, end_);
    return 1e3 * static_cast<double>(ms);
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Launches `repeats` times behind two that warm up.
Answer Time(KernelGroup* group, const CheckMemory& memory, const CallSpec& call, int repeats,
            TimeRow* row) {
  Stopwatch watch(group->device(0), group->stream(0));
  std::vector<double> times_us;
  for (int i = -2; i < repeats; ++i) {
    watch.Begin();
    Answer answer =
        group->Launch(call, memory.Inputs(0), memory.Outputs(0, /*in_place=*/false), kTimeoutMs);
    watch.End();
    if (answer.ok()) answer = group->Wait();
    if (!answer.ok()) return answer;
    if (i >= 0) times_us.push_back(watch.ElapsedUs());
  }
  row->bytes = call.count * SizeOf(call.dtype);
  row->p50_us = MedianOf(times_us);
  row->min_us = *std::min_element(times_us.begin(), times_us.end());
  return {};
}

bool HasSlots(Kernel kernel) {
  return kernel == Kernel::kRing || kernel == Kernel::kTree || kernel == Kernel::kDoubleTree;
}

std::vector<TimeRow> SettingsOf(Kernel kernel, int32_t ranks) {
  std::vector<TimeRow> settings;
  for (const int32_t channels : {4, 8, 16, 32, 64}) {
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
  Sweeper(const SweepPlan& plan, int32_t ranks, const CheckMemory& memory, CheckReport* report)
      : plan_(plan), ranks_(ranks), memory_(memory), report_(*report) {}

  Answer Run(Kernel kernel) {
    int64_t bytes_max = plan_.sweep_bytes;
    if (kernel == Kernel::kPacket) bytes_max = kPacketBytesMax;
    if (kernel == Kernel::kPull) bytes_max = kPullBytesMax;
    TimeRow best;
    for (TimeRow row : SettingsOf(kernel, ranks_)) {
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
    return Time(group.get(), memory_, call, bytes > (int64_t{1} << 20) ? 7 : 21, row);
  }

  const SweepPlan& plan_;
  const int32_t ranks_;
  const CheckMemory& memory_;
  CheckReport& report_;
};

}  // namespace

Answer MeasureRoof(int device, CheckReport* report) {
  const int64_t bytes = std::min(int64_t{1} << 30, report->device.memory_bytes / 8);
  std::unique_ptr<CheckMemory> memory;
  Answer answer = CheckMemory::Make({device}, bytes, &memory);
  if (!answer.ok()) return answer;
  Stopwatch watch(device, nullptr);
  std::vector<double> times_us;
  for (int i = -2; i < 20; ++i) {
    watch.Begin();
    answer = FromRuntime(cudaMemcpyAsync(memory->Outputs(0, false)[0], memory->Inputs(0)[0],
                                         static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice),
                         "copying");
    watch.End();
    if (answer.ok()) answer = FromRuntime(cudaDeviceSynchronize(), "copying");
    if (!answer.ok()) return answer;
    if (i >= 0) times_us.push_back(watch.ElapsedUs());
  }
  report->roof_gb_s = 2.0 * static_cast<double>(bytes) / MedianOf(times_us) / 1e3;
  return {};
}

Answer MeasureEmptyLaunch(Runtime* runtime, int device, CheckReport* report) {
  std::unique_ptr<CheckMemory> memory;
  Answer answer = CheckMemory::Make({device, device}, 64, &memory);
  std::unique_ptr<KernelGroup> group;
  const KernelSpec spec{
      .kernel = Kernel::kPacket, .world_size = 2, .channels = 4, .packet_bytes = 1024};
  if (answer.ok()) answer = MakeGroup(runtime, {device}, spec, /*threads=*/256, &group);
  TimeRow row;
  if (answer.ok()) answer = Time(group.get(), *memory, {.count = 0}, 51, &row);
  report->empty_launch_us = row.p50_us;
  return answer;
}

Answer Sweep(const SweepPlan& plan, CheckReport* report) {
  const int64_t largest =
      std::max(plan.sweep_bytes, *std::max_element(plan.sizes.begin(), plan.sizes.end()));
  for (const int32_t ranks : plan.ranks) {
    std::unique_ptr<CheckMemory> memory;
    Answer answer = CheckMemory::Make(DevicesOfRanks(plan.devices, ranks), largest, &memory);
    if (answer.ok()) answer = memory->Fill({.count = largest / SizeOf(Dtype::kF32)}, 0);
    if (!answer.ok()) return answer;
    Sweeper sweeper(plan, ranks, *memory, report);
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
