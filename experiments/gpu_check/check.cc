#include "experiments/gpu_check/check.h"

#include <algorithm>
#include <memory>
#include <string>

#include "allreduce/cuda/launch.h"
#include "allreduce/cuda/reduction.h"
#include "experiments/gpu_check/memory.h"

namespace lockstep::gpu {
namespace {

constexpr int64_t kTimeoutMs = 10'000;
constexpr int64_t kPacketBytesMax = int64_t{1} << 20;
constexpr int kWrongMax = 20;  // the first ones tell enough

struct Case {
  CallSpec call;
  int64_t misaligned = 0;
  bool in_place = false;
};

std::string TextOf(const KernelSpec& spec, const Case& c) {
  return std::string(NameOf(spec.kernel)) + " R=" + std::to_string(spec.world_size) +
         " n=" + std::to_string(c.call.count) + " " + NameOf(c.call.dtype) + " " +
         NameOf(c.call.op) + " misaligned by " + std::to_string(c.misaligned) +
         (c.in_place ? " in place" : "");
}

std::vector<Case> CasesOf(const std::vector<int64_t>& counts) {
  std::vector<Case> cases;
  for (const int64_t count : counts) {
    for (const Dtype dtype : kDtypes) cases.push_back({{count, dtype, ReduceOp::kSum}});
  }
  constexpr int64_t kCount = 4097;
  for (const Dtype dtype : kDtypes) {
    for (const ReduceOp op : {ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProd}) {
      const bool integers = dtype == Dtype::kI32 || dtype == Dtype::kI64;
      if (op != ReduceOp::kAvg || !integers) cases.push_back({{kCount, dtype, op}});
    }
    for (const int64_t misaligned : {1, 2, 4, 8}) {
      cases.push_back({{kCount, dtype, ReduceOp::kSum}, misaligned});
    }
    cases.push_back({{kCount, dtype, ReduceOp::kSum}, 0, /*in_place=*/true});
  }
  return cases;
}

Answer CheckCase(const Case& c, KernelGroup* group, const KernelSpec& spec, CheckMemory* memory,
                 CheckReport* report) {
  Answer answer = memory->Fill(c.call, c.misaligned);
  if (answer.ok()) {
    answer = group->Launch(c.call, memory->Inputs(c.misaligned),
                           memory->Outputs(c.misaligned, c.in_place), kTimeoutMs);
  }
  if (answer.ok()) answer = group->Wait();
  std::string wrong;
  if (answer.ok()) answer = memory->Compare(c.call, c.misaligned, c.in_place, &wrong);
  ++report->cases;
  if (!answer.ok()) wrong = answer.message;
  if (!wrong.empty() && report->wrong.size() < kWrongMax) {
    report->wrong.push_back(TextOf(spec, c) + ": " + wrong);
  }
  return answer;
}

}  // namespace

std::vector<int> DevicesOfRanks(const std::vector<int>& devices, int32_t ranks) {
  if (devices.size() == 1) return std::vector<int>(static_cast<size_t>(ranks), devices[0]);
  return {devices.begin(), devices.begin() + ranks};
}

Answer MakeGroup(Runtime* runtime, const std::vector<int>& devices, const KernelSpec& spec,
                 int threads, std::unique_ptr<KernelGroup>* made) {
  std::unique_ptr<PeerMemory> memory;
  const int64_t bytes = ArenaBytes(spec);
  Answer answer =
      devices.size() == 1
          ? PeerMemory::OnOneDevice(runtime, devices[0], spec.world_size, bytes, &memory)
          : PeerMemory::OnDevices(runtime, DevicesOfRanks(devices, spec.world_size), bytes,
                                  &memory);
  if (!answer.ok()) return answer;
  return KernelGroup::Make(spec, {.threads = threads}, std::move(memory), made);
}

Answer CheckKernels(const CheckPlan& plan, CheckReport* report) {
  const int64_t longest = *std::max_element(plan.counts.begin(), plan.counts.end());
  const std::vector<Case> cases = CasesOf(plan.counts);
  for (const int32_t ranks : plan.ranks) {
    std::unique_ptr<CheckMemory> memory;
    Answer answer = CheckMemory::Make(plan.runtime, DevicesOfRanks(plan.devices, ranks),
                                      std::max<int64_t>(longest, 4097) * 8, &memory);
    if (!answer.ok()) return answer;
    for (const Kernel kernel : kKernels) {
      const KernelSpec spec{.kernel = kernel,
                            .world_size = ranks,
                            .channels = 4,
                            .slots = 3,
                            .packet_bytes = kernel == Kernel::kPacket ? kPacketBytesMax : 0};
      std::unique_ptr<KernelGroup> group;
      answer = MakeGroup(plan.runtime, plan.devices, spec, /*threads=*/256, &group);
      for (const Case& c : cases) {
        if (!answer.ok()) return answer;
        if (!FaultOf(spec, c.call, c.in_place).empty()) continue;
        if (std::chrono::steady_clock::now() > plan.end) {
          report->notes.push_back("correctness ended early: its time was up");
          return {};
        }
        answer = CheckCase(c, group.get(), spec, memory.get(), report);
      }
      if (!answer.ok()) return answer;
    }
  }
  return {};
}

}  // namespace lockstep::gpu
