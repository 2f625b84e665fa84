#include "allreduce/cuda/arena.h"

#include <algorithm>

#include "allreduce/cuda/reduction.h"
#include "allreduce/schedule/tree_pieces.h"

namespace lockstep::gpu {
namespace {

// Lines of one block: posted and credit of each end, its progress, an arrival from each rank.
constexpr int64_t kPostedLine = 0;
constexpr int64_t kCreditLine = kPostedLine + kChildrenMax;
constexpr int64_t kProgressLine = kCreditLine + kChildrenMax;
constexpr int64_t kArrivalLine = kProgressLine + 1;
static_assert(sizeof(Progress) <= kLineBytes);

bool IsTree(Kernel kernel) { return kernel == Kernel::kTree || kernel == Kernel::kDoubleTree; }
bool HasConnections(Kernel kernel) { return kernel == Kernel::kRing || IsTree(kernel); }
int32_t TreesOf(const KernelSpec& spec) {
  return spec.kernel == Kernel::kDoubleTree ? 2 * spec.channels : spec.channels;
}
TreePlace PlaceOf(const KernelSpec& spec, int32_t tree, int32_t rank) {
  return spec.kernel == Kernel::kTree ? PlaceIn(TreeForm::kHeap, rank, spec.world_size)
                                      : PlaceInPair(tree % 2, rank, spec.world_size);
}

// One end of a connection: the end-th of a block of a rank.
struct End {
  int32_t rank = 0;
  int32_t block = 0;
  int32_t index = 0;
};

// Addresses in all ranks' arenas.
class Arenas {
 public:
  Arenas(const KernelSpec& spec, std::span<std::byte* const> bases) : spec_(spec), bases_(bases) {}

  int64_t LinesPerBlock() const { return kArrivalLine + spec_.world_size; }
  int64_t SlotsFirst() const { return BlocksPerRank(spec_) * LinesPerBlock() * kLineBytes; }
  int64_t BytesPerEnd() const { return spec_.slots * spec_.slot_bytes; }
  int64_t PacketsFirst() const {
    const int64_t ends = HasConnections(spec_.kernel) ? BlocksPerRank(spec_) * kChildrenMax : 0;
    return SlotsFirst() + ends * BytesPerEnd();
  }
  int64_t WordsPerSender() const { return 2 * spec_.packet_bytes / kWordBytes; }
  int64_t Bytes() const {
    const bool packets = spec_.kernel == Kernel::kPacket;
    const auto word = static_cast<int64_t>(sizeof(uint64_t));
    return PacketsFirst() + (packets ? spec_.world_size * WordsPerSender() * word : 0);
  }

  std::byte* Line(int32_t rank, int32_t block, int64_t line) const {
    return Base(rank) + (block * LinesPerBlock() + line) * kLineBytes;
  }
  uint64_t* Posted(const End& end) const {
    return Flag(Line(end.rank, end.block, kPostedLine + end.index));
  }
  uint64_t* Credit(const End& end) const {
    return Flag(Line(end.rank, end.block, kCreditLine + end.index));
  }
  uint64_t* Arrival(int32_t rank, int32_t block, int32_t sender) const {
    return Flag(Line(rank, block, kArrivalLine + sender));
  }
  std::byte* Slots(const End& end) const {
    return Base(end.rank) + SlotsFirst() + (end.block * kChildrenMax + end.index) * BytesPerEnd();
  }
  uint64_t* Packets(int32_t rank, int32_t sender) const {
    return Flag(Base(rank) + PacketsFirst()) + sender * WordsPerSender();
  }

  void Receive(const End& own, const End& sender, Block* block) const {
    block->incoming[own.index] = {sender.rank, Slots(own), Posted(own), Credit(sender)};
    block->incoming_count = std::max(block->incoming_count, own.index + 1);
  }
  void Send(const End& own, const End& receiver, Block* block) const {
    block->outgoing[own.index] = {receiver.rank, Slots(receiver), Posted(receiver), Credit(own)};
    block->outgoing_count = std::max(block->outgoing_count, own.index + 1);
  }

 private:
  std::byte* Base(int32_t rank) const { return bases_[static_cast<size_t>(rank)]; }
  static uint64_t* Flag(std::byte* address) { return reinterpret_cast<uint64_t*>(address); }

  const KernelSpec& spec_;
  const std::span<std::byte* const> bases_;
};

// What every block of a rank has; `index` says which lines are its own.
Block BlockAt(const Arenas& arenas, int32_t rank, int32_t index, int32_t chunk) {
  Block block;
  block.rank = rank;
  block.chunk = chunk;
  block.progress = reinterpret_cast<Progress*>(arenas.Line(rank, index, kProgressLine));
  return block;
}

Block RingBlock(const KernelSpec& spec, const Arenas& arenas, int32_t rank, int32_t channel) {
  const int32_t n = spec.world_size;
  Block block = BlockAt(arenas, rank, channel, channel * n);
  if (n == 1) return block;
  arenas.Receive({rank, channel, 0}, {(rank + n - 1) % n, channel, 0}, &block);
  arenas.Send({rank, channel, 0}, {(rank + 1) % n, channel, 0}, &block);
  return block;
}

int32_t UpBlock(int32_t tree) { return 2 * tree; }
// A root's down is in its up block.
int32_t DownBlock(int32_t tree, const TreePlace& place) {
  return place.parent == kNone ? UpBlock(tree) : 2 * tree + 1;
}

// Appends the tree's one or two blocks of a rank.
void AddTreeBlocks(const KernelSpec& spec, const Arenas& arenas, int32_t rank, int32_t tree,
                   std::vector<Block>* blocks) {
  const TreePlace place = PlaceOf(spec, tree, rank);
  Block up = BlockAt(arenas, rank, UpBlock(tree), tree);
  Block down = BlockAt(arenas, rank, DownBlock(tree, place), tree);
  const bool is_root = place.parent == kNone;
  up.role = is_root ? Role::kRoot : Role::kUp;
  down.role = Role::kDown;
  Block& sends_down = is_root ? up : down;
  for (size_t i = 0; i < place.children.size(); ++i) {
    const int32_t child = place.children[i];
    const auto end = static_cast<int32_t>(i);
    arenas.Receive({rank, UpBlock(tree), end}, {child, UpBlock(tree), 0}, &up);
    arenas.Send({rank, DownBlock(tree, place), end},
                {child, DownBlock(tree, PlaceOf(spec, tree, child)), 0}, &sends_down);
  }
  if (!is_root) {
    const TreePlace above = PlaceOf(spec, tree, place.parent);
    const auto own = std::find(above.children.begin(), above.children.end(), rank);
    const auto end = static_cast<int32_t>(own - above.children.begin());
    arenas.Send({rank, UpBlock(tree), 0}, {place.parent, UpBlock(tree), end}, &up);
    arenas.Receive({rank, DownBlock(tree, place), 0}, {place.parent, DownBlock(tree, above), end},
                   &down);
  }
  blocks->push_back(up);
  if (!is_root) blocks->push_back(down);
}

// Of the kernels without connections.
Block MeetingBlock(const KernelSpec& spec, const Arenas& arenas, int32_t rank, int32_t channel) {
  const bool parts = spec.kernel == Kernel::kDirect;
  Block block = BlockAt(arenas, rank, channel, parts ? channel * spec.world_size : channel);
  block.arrivals = arenas.Line(rank, channel, kArrivalLine);
  const bool packets = spec.kernel == Kernel::kPacket;
  if (packets) block.packets = arenas.Packets(rank, 0);
  for (int32_t peer = 0; peer < spec.world_size; ++peer) {
    block.arrival_at[peer] = arenas.Arrival(peer, channel, rank);
    if (packets) block.packets_at[peer] = arenas.Packets(peer, rank);
  }
  return block;
}

}  // namespace

const char* NameOf(Kernel kernel) {
  switch (kernel) {
    case Kernel::kRing:
      return "ring";
    case Kernel::kTree:
      return "tree";
    case Kernel::kDoubleTree:
      return "double_tree";
    case Kernel::kDirect:
      return "direct";
    case Kernel::kPull:
      return "pull";
    case Kernel::kPacket:
      return "packet";
  }
  return "unknown kernel";
}

std::optional<Kernel> KernelNamed(std::string_view name) {
  const auto* const it = std::find_if(kKernels.begin(), kKernels.end(),
                                      [&](Kernel kernel) { return NameOf(kernel) == name; });
  return it == kKernels.end() ? std::nullopt : std::optional(*it);
}

std::string FaultOf(const KernelSpec& spec) {
  const std::string name = NameOf(spec.kernel);
  if (spec.world_size < 1 || spec.world_size > kRanksMax) {
    return name + ": " + std::to_string(spec.world_size) + " ranks, there may be 1 to " +
           std::to_string(kRanksMax);
  }
  if (spec.channels < 1) return name + ": channels must be at least 1";
  if (HasConnections(spec.kernel) && spec.slots < kSlotsMin) {
    return name + ": " + std::to_string(spec.slots) + " slots, at least " +
           std::to_string(kSlotsMin) + " are needed";
  }
  if (spec.slot_bytes < kPackBytes || spec.slot_bytes % kPackBytes != 0) {
    return name + ": slot_bytes " + std::to_string(spec.slot_bytes) + " is no multiple of 16";
  }
  if (spec.packet_bytes < 0 || spec.packet_bytes % kPackBytes != 0) {
    return name + ": packet_bytes " + std::to_string(spec.packet_bytes) + " is no multiple of 16";
  }
  return "";
}

int32_t BlocksPerRank(const KernelSpec& spec) {
  return IsTree(spec.kernel) ? 2 * TreesOf(spec) : spec.channels;
}

int32_t ChunksOf(const KernelSpec& spec) {
  if (IsTree(spec.kernel)) return TreesOf(spec);
  const bool parts = spec.kernel == Kernel::kRing || spec.kernel == Kernel::kDirect;
  return parts ? spec.channels * spec.world_size : spec.channels;
}

int64_t ArenaBytes(const KernelSpec& spec) { return Arenas(spec, {}).Bytes(); }

Cut CutOf(const KernelSpec& spec, int64_t count, int64_t element_bytes) {
  Cut cut;
  cut.elements = count;
  cut.pack_elements = kPackBytes / element_bytes;
  const int64_t packs = (count + cut.pack_elements - 1) / cut.pack_elements;
  const int64_t chunks = ChunksOf(spec);
  cut.base_packs = packs / chunks;
  cut.longer = packs % chunks;
  const int64_t longest = cut.base_packs + (cut.longer > 0 ? 1 : 0);
  cut.tile_packs =
      HasConnections(spec.kernel) ? spec.slot_bytes / kPackBytes : std::max<int64_t>(1, longest);
  cut.tiles = std::max<int64_t>(1, (longest + cut.tile_packs - 1) / cut.tile_packs);
  return cut;
}

std::vector<Block> BlocksOf(const KernelSpec& spec, int32_t rank,
                            std::span<std::byte* const> arenas, uint64_t* reports) {
  const Arenas addresses(spec, arenas);
  std::vector<Block> blocks;
  for (int32_t channel = 0; channel < spec.channels && !IsTree(spec.kernel); ++channel) {
    blocks.push_back(spec.kernel == Kernel::kRing ? RingBlock(spec, addresses, rank, channel)
                                                  : MeetingBlock(spec, addresses, rank, channel));
  }
  for (int32_t tree = 0; tree < TreesOf(spec) && IsTree(spec.kernel); ++tree) {
    AddTreeBlocks(spec, addresses, rank, tree, &blocks);
  }
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i].report = reports + i;
  return blocks;
}

Call CallOf(const KernelSpec& spec, const CallSpec& call) {
  Call made;
  made.cut = CutOf(spec, call.count, SizeOf(call.dtype));
  made.world_size = spec.world_size;
  made.divisor = call.op == ReduceOp::kAvg ? spec.world_size : 1;
  made.slots = spec.slots;
  made.slot_bytes = spec.slot_bytes;
  made.packet_words = spec.packet_bytes / kWordBytes;
  return made;
}

std::string FaultOf(const KernelSpec& spec, const CallSpec& call, bool in_place) {
  const std::string name = NameOf(spec.kernel);
  if (std::find(std::begin(kDtypes), std::end(kDtypes), call.dtype) == std::end(kDtypes)) {
    return name + ": no kernel for this dtype; there are f32, f16, bf16, i32, i64";
  }
  if (call.op == ReduceOp::kAvg && (call.dtype == Dtype::kI32 || call.dtype == Dtype::kI64)) {
    return name + ": the average of integers is refused; sum them and divide as you want it";
  }
  const int64_t bytes = call.count * SizeOf(call.dtype);
  if (spec.kernel == Kernel::kPacket && bytes > spec.packet_bytes) {
    return name + ": " + std::to_string(bytes) + " bytes, its packets hold " +
           std::to_string(spec.packet_bytes);
  }
  if (spec.kernel == Kernel::kPull && in_place) {
    return name + ": reads inputs while others write outputs: they must be different memory";
  }
  return "";
}

}  // namespace lockstep::gpu
