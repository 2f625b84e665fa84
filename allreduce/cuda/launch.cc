#include "allreduce/cuda/launch.h"

#include <cuda_runtime_api.h>

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

constexpr int64_t kGraceMs = 2000;  // from the kernels' own deadline to the end of their launch
constexpr size_t kStopWords = kLineBytes / sizeof(uint64_t);

cudaStream_t StreamOf(void* stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

const void* FunctionOf(Kernel kernel, Dtype dtype, ReduceOp op) {
  switch (kernel) {
    case Kernel::kRing:
      return RingFunction(dtype, op);
    case Kernel::kTree:
    case Kernel::kDoubleTree:
      return TreeFunction(dtype, op);
    case Kernel::kDirect:
      return DirectFunction(dtype, op);
    case Kernel::kPull:
      return PullFunction(dtype, op);
    case Kernel::kPacket:
      return PacketFunction(dtype, op);
  }
  return nullptr;
}

KernelGroup::KernelGroup(const KernelSpec& spec, const LaunchShape& shape,
                         std::unique_ptr<PeerMemory> memory)
    : spec_(spec), shape_(shape), memory_(std::move(memory)) {}

KernelGroup::~KernelGroup() {
  if (in_flight_) {
    Stop();
    AwaitStreams();
  }
  for (const Part& part : parts_) {
    cudaSetDevice(part.device);
    if (part.stream != nullptr) cudaStreamDestroy(StreamOf(part.stream));
    cudaFree(part.device_blocks);
  }
  cudaFreeHost(host_words_);
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
  if (answer.ok()) *made = std::move(group);
  return answer;
}

Answer KernelGroup::MakeHostWords() {
  const size_t words = kStopWords + static_cast<size_t>(spec_.world_size) *
                                        static_cast<size_t>(BlocksPerRank(spec_));
  void* memory = nullptr;
  Answer answer = FromRuntime(
      cudaHostAlloc(&memory, words * sizeof(uint64_t), cudaHostAllocPortable | cudaHostAllocMapped),
      "memory for reports");
  if (!answer.ok()) return answer;
  host_words_ = static_cast<uint64_t*>(memory);
  std::fill_n(host_words_, words, 0);
  return {};
}

uint64_t* KernelGroup::ReportsOf(int rank) const {
  return host_words_ + kStopWords + int64_t{rank} * BlocksPerRank(spec_);
}

Answer KernelGroup::MakePart(int device, const std::vector<int>& ranks) {
  Part& part = parts_.emplace_back();
  part.device = device;
  part.multiprocessors = DescribeDevice(device).multiprocessors;
  std::vector<Block> blocks;
  for (const int rank : ranks) {
    const std::vector<Block> own = BlocksOf(spec_, rank, memory_->arenas(), ReportsOf(rank));
    blocks.insert(blocks.end(), own.begin(), own.end());
  }
  part.blocks = static_cast<int>(blocks.size());
  Answer answer = FromRuntime(cudaSetDevice(device), "choosing GPU " + std::to_string(device));
  int least = 0;
  int greatest = 0;
  if (answer.ok()) {
    answer = FromRuntime(cudaDeviceGetStreamPriorityRange(&least, &greatest), "stream priorities");
  }
  cudaStream_t stream = nullptr;
  if (answer.ok()) {
    answer = FromRuntime(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest),
                         "making a stream");
    part.stream = stream;
  }
  void* memory = nullptr;
  const size_t bytes = blocks.size() * sizeof(Block);
  if (answer.ok()) answer = FromRuntime(cudaMalloc(&memory, bytes), "memory for blocks");
  part.device_blocks = static_cast<Block*>(memory);
  if (!answer.ok()) return answer;
  return FromRuntime(cudaMemcpy(memory, blocks.data(), bytes, cudaMemcpyHostToDevice),
                     "copying blocks");
}

Answer KernelGroup::CheckFits(const Part& part, const void* function) const {
  int per_processor = 0;
  Answer asked = FromRuntime(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                                 &per_processor, function, shape_.threads, /*dynamicSMemSize=*/0),
                             "asking how many blocks fit");
  if (!asked.ok()) return asked;
  const int fit = per_processor * part.multiprocessors;
  if (part.blocks <= fit) return {};
  return {Refused::kTooManyBlocks,
          std::string(NameOf(spec_.kernel)) + ": " + std::to_string(part.blocks) + " blocks of " +
              std::to_string(shape_.threads) + " threads on GPU " + std::to_string(part.device) +
              ", which holds " + std::to_string(fit) +
              " at once; waiting blocks would wait for ever: use fewer channels or threads"};
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
  if (!answer.ok()) return answer;
  const void* const function = FunctionOf(spec_.kernel, call.dtype, call.op);
  if (!fits_.contains(function)) {
    for (const Part& part : parts_) {
      answer = FromRuntime(cudaSetDevice(part.device), "choosing a device");
      if (answer.ok()) answer = CheckFits(part, function);
      if (!answer.ok()) return answer;
    }
    fits_.insert(function);
  }
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
    const Block* blocks = part.device_blocks;
    void* arguments[] = {&made, &blocks};
    answer = FromRuntime(cudaSetDevice(part.device), "choosing a device");
    if (answer.ok()) {
      answer = FromRuntime(
          cudaLaunchCooperativeKernel(function, dim3(static_cast<unsigned>(part.blocks)),
                                      dim3(static_cast<unsigned>(shape_.threads)), arguments,
                                      /*sharedMem=*/0, StreamOf(part.stream)),
          std::string("launching ") + NameOf(spec_.kernel) + " on GPU " +
              std::to_string(part.device));
    }
    if (!answer.ok()) {
      Stop();  // those that are launched already would wait for this one
      failure_ = answer;
      return answer;
    }
  }
  return {};
}

Answer KernelGroup::AwaitStreams() {
  const steady_clock::time_point end = steady_clock::now() + milliseconds(timeout_ms_ + kGraceMs);
  bool stopped = false;
  for (const Part& part : parts_) {
    cudaSetDevice(part.device);
    cudaError_t state = cudaErrorNotReady;
    while ((state = cudaStreamQuery(StreamOf(part.stream))) == cudaErrorNotReady) {
      const steady_clock::time_point now = steady_clock::now();
      if (now > end && !stopped) {
        stopped = true;
        Stop();
      }
      if (now > end + milliseconds(kGraceMs)) {
        return {Refused::kDevice, "the kernel on GPU " + std::to_string(part.device) +
                                      " does not end, though it was asked to stop: the device may "
                                      "need a reset"};
      }
      std::this_thread::yield();
    }
    Answer answer = FromRuntime(state, "running the kernel on GPU " + std::to_string(part.device));
    if (!answer.ok()) return answer;
  }
  in_flight_ = false;
  return {};
}

Answer KernelGroup::Wait() {
  if (!failure_.ok()) return failure_;
  if (!in_flight_) return {};
  failure_ = AwaitStreams();
  if (!failure_.ok()) return failure_;
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
  if (!why.empty()) failure_ = {Refused::kRankFailed, NameOf(spec_.kernel) + (": " + why)};
  return failure_;
}

void KernelGroup::Stop() { std::atomic_ref<uint64_t>(*host_words_).store(1); }

}  // namespace lockstep::gpu
