// packet.h: the one-shot kernel for small sizes: every rank writes its input to every peer in
// 8-byte words, 4 bytes of data and 4 of flag, and sums what it gets in rank order. A word is
// written and read whole, so its flag says that its data are there: no fence, no meeting, one hop.
// n(4n-2) elements for each element of the data, counting flags as data.
// Words of call e stand in half e mod 2. A rank that is in call e has had words of call e-1 from
// every peer, which then were through with call e-2, so nobody still reads what it overwrites. That
// holds because halves have a fixed size, whatever the call's, and because a call without elements
// is none (its epoch is not used up).
#pragma once

#include "allreduce/cuda/call.h"
#include "allreduce/cuda/carry.h"
#include "allreduce/cuda/wait.h"

namespace lockstep::gpu {

inline constexpr int kWordsPerPack = static_cast<int>(kPackBytes / kWordBytes);

struct PackWords {
  uint32_t word[kWordsPerPack];
};

// The pack that begins at an element; fewer than all elements at the end of the data: rest zero.
template <typename T, typename Team>
LOCKSTEP_INLINE Pack<T> LoadPack(Team* team, const std::byte* address, int elements) {
  using P = Pack<T>;
  if (elements == P::kElements && IsAligned(address, kPackBytes)) {
    return team->template Load<P>(address);
  }
  P pack{};
  LOCKSTEP_UNROLL
  for (int e = 0; e < P::kElements; ++e) {
    if (e < elements) {
      pack.element[e] = LoadAnywhere<T>(team, address + e * static_cast<int64_t>(sizeof(T)));
    }
  }
  return pack;
}

template <typename T, typename Team>
LOCKSTEP_INLINE void StorePack(Team* team, std::byte* address, int elements, const Pack<T>& pack) {
  using P = Pack<T>;
  if (elements == P::kElements && IsAligned(address, kPackBytes)) {
    return team->Store(address, pack);
  }
  LOCKSTEP_UNROLL
  for (int e = 0; e < P::kElements; ++e) {
    if (e < elements) {
      StoreAnywhere(team, address + e * static_cast<int64_t>(sizeof(T)), pack.element[e]);
    }
  }
}

template <typename Team>
class Packets {
 public:
  LOCKSTEP_ANYWHERE Packets(Team* team, const Call& call, const Block& block)
      : team_(team),
        call_(call),
        block_(block),
        watch_(team, call, block),
        half_(call.epoch % 2 == 0 ? 0 : call.packet_words) {}

  LOCKSTEP_ANYWHERE void Send(int64_t pack, int words, const PackWords& data) const {
    for (int32_t i = 1; i < call_.world_size; ++i) {  // not all to one peer first
      const int32_t peer = (block_.rank + i) % call_.world_size;
      uint64_t* const at = block_.packets_at[peer] + half_ + pack * kWordsPerPack;
      LOCKSTEP_UNROLL
      for (int w = 0; w < kWordsPerPack; ++w) {
        if (w < words) team_->Put(at + w, call_.epoch, data.word[w]);
      }
    }
  }

  // False: gave up.
  LOCKSTEP_ANYWHERE bool Receive(int32_t sender, int64_t pack, int words, PackWords* data) const {
    const uint64_t* const at =
        block_.packets + int64_t{2} * sender * call_.packet_words + half_ + pack * kWordsPerPack;
    bool ready = true;
    LOCKSTEP_UNROLL
    for (int w = 0; w < kWordsPerPack; ++w) {
      data->word[w] = 0;
      if (w < words && ready) {
        ready = watch_.Until([&] { return team_->Take(at + w, call_.epoch, &data->word[w]); },
                             WaitFor::kPacket, sender);
      }
    }
    return ready;
  }

 private:
  Team* const team_;
  const Call& call_;
  const Block& block_;
  const Watch<Team> watch_;
  const int64_t half_;
};

// False: gave up.
template <typename F, typename Team>
LOCKSTEP_ANYWHERE bool SumPacks(Team* team, const Call& call, const Block& block,
                                const Packets<Team>& packets, int64_t pack, int elements) {
  using T = typename F::Stored;
  using P = Pack<T>;
  const int words =
      static_cast<int>((elements * static_cast<int64_t>(sizeof(T)) + kWordBytes - 1) / kWordBytes);
  const int64_t at_byte = pack * kPackBytes;
  const P own = LoadPack<T>(team, call.inputs[block.rank] + at_byte, elements);
  packets.Send(pack, words, std::bit_cast<PackWords>(own));
  typename F::Value values[P::kElements];
  for (int32_t rank = 0; rank < call.world_size; ++rank) {
    P theirs = own;
    if (rank != block.rank) {
      PackWords data;
      if (!packets.Receive(rank, pack, words, &data)) return false;
      theirs = std::bit_cast<P>(data);
    }
    LOCKSTEP_UNROLL
    for (int e = 0; e < P::kElements; ++e) {
      const typename F::Value value = F::Widen(theirs.element[e]);
      values[e] = rank == 0 ? value : F::Combine(values[e], value);
    }
  }
  P sum;
  LOCKSTEP_UNROLL
  for (int e = 0; e < P::kElements; ++e) sum.element[e] = F::Finish(values[e], call.divisor);
  StorePack(team, call.outputs[block.rank] + at_byte, elements, sum);
  return true;
}

template <typename F, typename Team>
LOCKSTEP_ANYWHERE bool RunPacket(Team* team, const Call& call, const Block& block) {
  constexpr int64_t kElements = Pack<typename F::Stored>::kElements;
  const Piece piece = call.cut.OfChunk(block.chunk);
  const int64_t end = piece.first + piece.count;
  const Packets<Team> packets(team, call, block);
  bool failed = false;
  for (int64_t first = piece.first + team->rank() * kElements; first < end && !failed;
       first += team->size() * kElements) {
    const auto elements = static_cast<int>(end - first < kElements ? end - first : kElements);
    failed = !SumPacks<F>(team, call, block, packets, first / kElements, elements);
  }
  if constexpr (Team::kNotes) {
    Noted noted{.chunk = block.chunk, .targets = 1};
    noted.target[0] = Noted::kOwn;
    for (int32_t rank = 0; rank < call.world_size; ++rank) {
      noted.source[noted.sources++] = rank == block.rank ? Noted::kOwn : rank;
    }
    team->Note(noted);
  }
  return !team->Any(failed);
}

}  // namespace lockstep::gpu
