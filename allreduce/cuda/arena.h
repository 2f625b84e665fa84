// arena.h: one rank's memory for a kernel's flags, slots and packets, and the blocks that use it.
// The same layout on every rank, so that an address in a peer's arena is its base plus an offset
// that all know. An arena starts filled with zeros. Who hangs where comes from
// allreduce/schedule/tree_pieces.h. Pure; compiles without Abseil.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "allreduce/cuda/call.h"
#include "base/numeric/dtype.h"

namespace lockstep::gpu {

const char* NameOf(Kernel kernel);  // "ring", "double_tree", "pull", "packet"
std::optional<Kernel> KernelNamed(std::string_view name);

struct KernelSpec {
  Kernel kernel = Kernel::kRing;
  int32_t world_size = 1;
  int32_t channels = 1;
  int32_t slots = 4;                       // of each connection
  int64_t slot_bytes = int64_t{32} << 10;  // and so of a tile
  int64_t packet_bytes = 0;                // kPacket: the largest call
};

// "", or what is wrong with it.
std::string FaultOf(const KernelSpec& spec);

// At most; ranks that are a tree's root have fewer.
int32_t BlocksPerRank(const KernelSpec& spec);
int32_t ChunksOf(const KernelSpec& spec);
int64_t ArenaBytes(const KernelSpec& spec);

// How a call of `count` elements is cut; `element_bytes` divides 16.
Cut CutOf(const KernelSpec& spec, int64_t count, int64_t element_bytes);

// One rank's blocks. `arenas` [rank]: as this rank's device sees them, multiples of 128 bytes;
// `reports`: BlocksPerRank words, block i's at its place in the result. REQUIRES: FaultOf is "".
std::vector<Block> BlocksOf(const KernelSpec& spec, int32_t rank,
                            std::span<std::byte* const> arenas, uint64_t* reports);

// What all calls of a kernel share; addresses, stop word and timeout are still to be set.
struct CallSpec {
  int64_t count = 0;
  Dtype dtype = Dtype::kF32;
  ReduceOp op = ReduceOp::kSum;
};
Call CallOf(const KernelSpec& spec, const CallSpec& call);
// "", or why this kernel can't: more than its packets hold, an op that the dtype lacks, or
// (kPull) an output that is an input.
std::string FaultOf(const KernelSpec& spec, const CallSpec& call, bool in_place);

}  // namespace lockstep::gpu
