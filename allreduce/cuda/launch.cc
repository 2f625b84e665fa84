#include "allreduce/cuda/launch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "allreduce/cuda/diagnosis.h"
#include "allreduce/cuda/kernels.h"

namespace lockstep::gpu {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kCopy(10'000);  // some kilobytes, and the driver's start
constexpr int64_t kGraceMs = 2000;     // from the kernels' own deadline to the end of their launch
constexpr size_t kStopWords = kLineBytes / sizeof(uint64_t);

}  // namespace

KernelGroup::KernelGroup(const KernelSpec& spec, const LaunchShape& shape,
                         std::unique_ptr<PeerMemory> memory)
    : spec_(spec), shape_(shape), memory_(std::move(memory)), runtime_(*memory_->runtime()) {}

KernelGroup::~KernelGroup() {
  if (!End()) {  // it still writes
    static_cast<void>(memory_.release());
    return;
  }
  for (const Part& part : parts_) {
    if (part.stream != nullptr) runtime_.DestroyStream(part.device, part.stream);
    if (part.device_blocks != nullptr) {
      runtime_.Free(part.device, reinterpret_cast<std::byte*>(part.device_blocks));
    }
  }
  if (host_words_ != nullptr) runtime_.FreeHost(reinterpret_cast<std::byte*>(host_words_));
}

Answer KernelGroup::Make(const KernelSpec& spec, const LaunchShape& shape,
                         std::unique_ptr<PeerMemory> memory, std::unique_ptr<KernelGroup>* made) {
  const std::string fault = FaultOf(spec);
  if (!fault.empty()) return {Refused::kInvalid, fault};
  if (shape.threads < 32 || shape.threads > kThreadsMax || shape.threads % 32 != 0) {
    return {Refused::kInvalid, std::to_string(shape.threads) +
                                   " threads: a multiple of 32 from 32 to " +
                                   std::to_string(kThreadsMax) + " is needed"};
  }
  const int devices = memory->ranks();
  if (devices != spec.world_size) {
    return {Refused::kInvalid, std::string(NameOf(spec.kernel)) + ": memory of " +
                                   std::to_string(devices) + " ranks for " +
                                   std::to_string(spec.world_size)};
  }
  std::unique_ptr<KernelGroup> group(new KernelGroup(spec, shape, std::move(memory)));
  std::map<int, std::vector<int>> ranks_of;  // [device]
  for (int rank = 0; rank < spec.world_size; ++rank) {
    const int device = group->memory_->device_of(rank);
    if (device == PeerMemory::kElsewhere) continue;
    ranks_of[device].push_back(rank);
    group->ranks_.push_back(rank);
  }
  Answer answer = group->MakeHostWords();
  for (const auto& [device, ranks] : ranks_of) {
    if (answer.ok()) answer = group->MakePart(device, ranks);
  }
  if (answer.ok()) answer = group->CheckFits({});
  *made = std::move(group);
  return answer;
}

Answer KernelGroup::MakeHostWords() {
  const size_t words = kStopWords + static_cast<size_t>(spec_.world_size) *
                                        static_cast<size_t>(BlocksPerRank(spec_));
  std::byte* memory = nullptr;
  Answer answer = runtime_.AllocateHost(static_cast<int64_t>(words * sizeof(uint64_t)), &memory);
  host_words_ = reinterpret_cast<uint64_t*>(memory);
  return answer;
}

uint64_t* KernelGroup::ReportsOf(int rank) const {
  return host_words_ + kStopWords + int64_t{rank} * BlocksPerRank(spec_);
}

Answer KernelGroup::MakePart(int device, const std::vector<int>& ranks) {
  Part& part = parts_.emplace_back();
  part.device = device;
  std::vector<Block> blocks;
  for (const int rank : ranks) {
    const std::vector<Block> own = BlocksOf(spec_, rank, memory_->arenas(), ReportsOf(rank));
    blocks.insert(blocks.end(), own.begin(), own.end());
  }
  part.blocks = static_cast<int>(blocks.size());
  const auto bytes = static_cast<int64_t>(blocks.size() * sizeof(Block));
  std::byte* memory = nullptr;
  Answer answer = runtime_.Allocate(device, bytes, &memory);
  part.device_blocks = reinterpret_cast<Block*>(memory);
  if (answer.ok()) answer = runtime_.MakeStream(device, &part.stream);
  if (answer.ok()) answer = runtime_.Copy(device, part.stream, memory, blocks.data(), bytes);
  if (!answer.ok()) return answer;
  return AwaitStream(&runtime_, device, part.stream, kCopy, "copying a kernel's blocks");
}

KernelLaunch KernelGroup::LaunchOf(const Part& part, const CallSpec& call) const {
  return {.device = part.device,
          .stream = part.stream,
          .kernel = spec_.kernel,
          .dtype = call.dtype,
          .op = call.op,
          .block_count = part.blocks,
          .threads = shape_.threads,
          .blocks = part.device_blocks,
          .call = {}};
}

Answer KernelGroup::CheckFits(const CallSpec& call) {
  if (fits_.contains({call.dtype, call.op})) return {};
  for (const Part& part : parts_) {
    int fit = 0;
    Answer asked = runtime_.BlocksThatFit(LaunchOf(part, call), &fit);
    if (!asked.ok()) return asked;
    if (part.blocks <= fit) continue;
    return {Refused::kTooManyBlocks,
            std::string(NameOf(spec_.kernel)) + ": " + std::to_string(part.blocks) + " blocks of " +
                std::to_string(shape_.threads) + " threads on GPU " + std::to_string(part.device) +
                ", which holds " + std::to_string(fit) +
                " at once; waiting blocks would wait for ever: use fewer channels or threads"};
  }
  fits_.insert({call.dtype, call.op});
  return {};
}

Answer KernelGroup::CheckAddresses(const CallSpec& call, std::span<const std::byte* const> inputs,
                                   std::span<std::byte* const> outputs) const {
  const auto ranks = static_cast<size_t>(spec_.world_size);
  if (inputs.size() != ranks || outputs.size() != ranks) {
    return {Refused::kInvalid, "addresses of " + std::to_string(inputs.size()) + " inputs and " +
                                   std::to_string(outputs.size()) + " outputs for " +
                                   std::to_string(ranks) + " ranks"};
  }
  const bool all = spec_.kernel == Kernel::kDirect || spec_.kernel == Kernel::kPull;
  bool in_place = false;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const bool own = memory_->device_of(static_cast<int>(rank)) != PeerMemory::kElsewhere;
    if (call.count > 0 && (all || own) && (inputs[rank] == nullptr || outputs[rank] == nullptr)) {
      return {Refused::kInvalid,
              std::string(NameOf(spec_.kernel)) + ": no address for rank " + std::to_string(rank)};
    }
    in_place = in_place || std::find(outputs.begin(), outputs.end(), inputs[rank]) != outputs.end();
  }
  const std::string fault = FaultOf(spec_, call, in_place);
  return fault.empty() ? Answer{} : Answer{Refused::kInvalid, fault};
}

Answer KernelGroup::Launch(const CallSpec& call, std::span<const std::byte* const> inputs,
                           std::span<std::byte* const> outputs, int64_t timeout_ms) {
  if (!failure_.ok()) return failure_;
  Answer answer = CheckAddresses(call, inputs, outputs);
  if (answer.ok()) answer = CheckFits(call);
  if (!answer.ok()) return answer;
  Call made = CallOf(spec_, call);
  std::copy(inputs.begin(), inputs.end(), made.inputs);
  std::copy(outputs.begin(), outputs.end(), made.outputs);
  if (call.count > 0) epoch_ = epoch_ + 1 == 0 ? 1 : epoch_ + 1;
  made.epoch = epoch_;
  made.one_device = memory_->one_device();
  made.stop = host_words_;
  made.timeout_ns = timeout_ms * 1'000'000;
  timeout_ms_ = timeout_ms;
  in_flight_ = true;
  for (const Part& part : parts_) {
    KernelLaunch launch = LaunchOf(part, call);
    launch.call = made;
    answer = runtime_.Launch(launch);
    if (!answer.ok()) {
      Stop();  // those that are launched already would wait for this one
      answer.message = std::string(NameOf(spec_.kernel)) + ": " + answer.message;
      failure_ = answer;
      return answer;
    }
  }
  return {};
}

Answer KernelGroup::Poll(bool* through) {
  *through = true;
  for (const Part& part : parts_) {
    bool idle = false;
    const Answer answer = runtime_.Query(part.device, part.stream, &idle);
    if (!answer.ok()) {  // its kernel is over; those of other devices would wait for it
      if (failure_.ok()) failure_ = {answer.why, NameOf(spec_.kernel) + (": " + answer.message)};
      Stop();
    } else if (!idle) {
      *through = false;
    }
  }
  if (!*through) return {};
  if (in_flight_ && failure_.ok()) failure_ = Diagnosis();
  in_flight_ = false;
  return failure_;
}

Answer KernelGroup::Diagnosis() {
  std::vector<RankReport> reports;
  for (const int rank : ranks_) {
    uint64_t* const own = ReportsOf(rank);
    const size_t blocks = BlocksOf(spec_, rank, memory_->arenas(), own).size();
    for (size_t block = 0; block < blocks; ++block) {
      reports.push_back({rank, Report::Of(std::atomic_ref<uint64_t>(own[block]).load())});
      own[block] = 0;
    }
  }
  const std::string why = Diagnose(reports, timeout_ms_);
  if (why.empty()) return {};
  return {Refused::kRankFailed, NameOf(spec_.kernel) + (": " + why)};
}

bool KernelGroup::EndsWithin(milliseconds limit) {
  const steady_clock::time_point end = steady_clock::now() + limit;
  while (in_flight_) {
    bool through = false;
    static_cast<void>(Poll(&through));  // what came of it stays in failure_
    if (!through && steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

Answer KernelGroup::Wait() {
  if (EndsWithin(milliseconds(timeout_ms_ + kGraceMs)) || End()) return failure_;
  failure_ = {Refused::kDevice, std::string(NameOf(spec_.kernel)) +
                                    ": the kernel does not end, though it was asked to stop: the "
                                    "device may need a reset"};
  return failure_;
}

bool KernelGroup::End() {
  if (!in_flight_) return true;
  Stop();
  return EndsWithin(milliseconds(kGraceMs));
}

void KernelGroup::Stop() { std::atomic_ref<uint64_t>(*host_words_).store(1); }

}  // namespace lockstep::gpu
