#include "tests/allreduce/cuda/host_group.h"

#include <algorithm>
#include <barrier>
#include <thread>
#include <type_traits>

#include "allreduce/cuda/body.h"
#include "allreduce/cuda/reduction.h"
#include "base/check.h"
#include "tests/allreduce/cuda/host_team.h"

namespace lockstep::gpu {
namespace {

template <typename F>
void RunKernel(Kernel kernel, HostTeam* team, const Call& call, const Block& block) {
  switch (kernel) {
    case Kernel::kRing:
      return RunBlock<F, Kernel::kRing>(team, call, block);
    case Kernel::kTree:
    case Kernel::kDoubleTree:
      return RunBlock<F, Kernel::kTree>(team, call, block);
    case Kernel::kDirect:
      return RunBlock<F, Kernel::kDirect>(team, call, block);
    case Kernel::kPull:
      return RunBlock<F, Kernel::kPull>(team, call, block);
    case Kernel::kPacket:
      return RunBlock<F, Kernel::kPacket>(team, call, block);
  }
}

}  // namespace

void RunHostKernel(Kernel kernel, const CallSpec& spec, HostTeam* team, const Call& call,
                   const Block& block) {
  WithReduction(spec.dtype, spec.op,
                [&](auto reduction) { RunKernel<decltype(reduction)>(kernel, team, call, block); });
}

namespace {

struct Launch {
  CallSpec spec;
  Call call;
};

// One block: its threads, the stream that its rank's blocks share, and what they leave.
struct Running {
  Running(const Block& block_in, const HostOptions& options, std::barrier<>* stream_in)
      : block(block_in), shared(options.threads_per_block, options.planted), stream(*stream_in) {
    const int threads = options.threads_per_block;
    teams.reserve(static_cast<size_t>(threads));
    for (int t = 0; t < threads; ++t) teams.emplace_back(&shared, t);
  }

  void RunThread(Kernel kernel, const std::vector<Launch>& launches, size_t thread) {
    for (const Launch& launch : launches) {
      RunHostKernel(kernel, launch.spec, &teams[thread], launch.call, block);
      stream.arrive_and_wait();
    }
  }

  const Block& block;
  HostBlock shared;
  std::vector<HostTeam> teams;
  std::barrier<>& stream;
};

}  // namespace

HostGroup::HostGroup(const KernelSpec& spec) : spec_(spec) {
  CHECK(FaultOf(spec).empty()) << FaultOf(spec);
  const auto n = static_cast<size_t>(spec.world_size);
  const auto lines = static_cast<size_t>((ArenaBytes(spec) + kLineBytes - 1) / kLineBytes);
  arenas_.assign(n, std::vector<Line>(lines));
  reports_.assign(n, std::vector<uint64_t>(static_cast<size_t>(BlocksPerRank(spec))));
  std::vector<std::byte*> bases;
  for (std::vector<Line>& arena : arenas_) bases.push_back(arena.data()->bytes);
  for (int32_t rank = 0; rank < spec.world_size; ++rank) {
    blocks_.push_back(BlocksOf(spec, rank, bases, reports_[static_cast<size_t>(rank)].data()));
  }
}

void HostGroup::PlantEndlessCredit() {
  static constexpr uint64_t kEndless = uint64_t{1} << 40;
  for (std::vector<Block>& blocks : blocks_) {
    for (Block& block : blocks) {
      for (Outgoing& outgoing : block.outgoing) outgoing.credit = &kEndless;
    }
  }
}

std::vector<BlockRecord> HostGroup::Run(const std::vector<HostCall>& calls,
                                        const HostOptions& options) {
  std::vector<Launch> launches;
  for (const HostCall& host_call : calls) {
    Launch launch{host_call.spec, CallOf(spec_, host_call.spec)};
    std::copy(host_call.inputs.begin(), host_call.inputs.end(), launch.call.inputs);
    std::copy(host_call.outputs.begin(), host_call.outputs.end(), launch.call.outputs);
    launch.call.stop = &stop_;
    launch.call.timeout_ns = options.timeout_ms * 1'000'000;
    if (host_call.spec.count > 0) ++epoch_;
    launch.call.epoch = epoch_;
    launches.push_back(launch);
  }
  if (options.planted == Planted::kNoCredit) PlantEndlessCredit();
  const int threads = options.threads_per_block;
  std::vector<std::unique_ptr<std::barrier<>>> streams;
  std::vector<std::unique_ptr<Running>> running;
  for (int32_t rank = 0; rank < spec_.world_size; ++rank) {
    if (std::count(options.missing.begin(), options.missing.end(), rank) > 0) continue;
    const std::vector<Block>& blocks = blocks_[static_cast<size_t>(rank)];
    const auto on_stream = static_cast<std::ptrdiff_t>(blocks.size()) * threads;
    streams.push_back(std::make_unique<std::barrier<>>(on_stream));
    for (const Block& block : blocks) {
      running.push_back(std::make_unique<Running>(block, options, streams.back().get()));
    }
  }
  std::vector<std::thread> all;
  for (const auto& block : running) {
    for (size_t t = 0; t < static_cast<size_t>(threads); ++t) {
      all.emplace_back(
          [&, t, block = block.get()] { block->RunThread(spec_.kernel, launches, t); });
    }
  }
  for (std::thread& thread : all) thread.join();
  std::vector<BlockRecord> records;
  for (const auto& block : running) {
    const std::vector<Block>& own = blocks_[static_cast<size_t>(block->block.rank)];
    BlockRecord record{.rank = block->block.rank,
                       .index = static_cast<int32_t>(&block->block - own.data()),
                       .report = Report::Of(*block->block.report),
                       .notes = block->teams[0].notes()};
    for (const HostTeam& team : block->teams) record.bytes += team.bytes();
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace lockstep::gpu
