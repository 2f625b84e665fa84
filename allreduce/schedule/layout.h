// layout.h: which elements of the data a chunk holds, and which part of a chunk a tile. `count`
// elements are cut into `chunks` nearly equal parts, the first count % chunks one element longer;
// parts may be empty. A tile is at most tile_elements of every chunk. Scratch chunk `chunks + k` is
// as long as data chunk k % chunks and has room for one tile in memory of its own. Where one tile
// holds a whole chunk, chunks lie one behind the other, those of scratch too. Units: elements.
// Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep {

struct ChunkLayout {
  // Elements [first, first + count): of the data, or of the scratch chunk itself.
  struct Piece {
    int64_t first = 0;
    int64_t count = 0;
  };

  int64_t count = 0;
  int32_t chunks = 1;
  int64_t tile_elements = 1;

  bool IsScratch(int32_t chunk) const { return chunk >= chunks; }
  int64_t LongestChunk() const { return (count + chunks - 1) / chunks; }
  // At least one: a collective of no elements still sends its headers.
  int64_t Tiles() const {
    return std::max<int64_t>(1, (LongestChunk() + tile_elements - 1) / tile_elements);
  }

  Piece PieceOf(int32_t chunk, int64_t tile) const {
    const int64_t like = chunk % chunks;
    const int64_t base = count / chunks;
    const int64_t longer = count % chunks;
    const int64_t begin = IsScratch(chunk) ? 0 : like * base + std::min(like, longer);
    const int64_t length = base + (like < longer ? 1 : 0);
    const int64_t skipped = std::min(tile * tile_elements, length);
    return {begin + skipped, std::min(tile_elements, length - skipped)};
  }

  // Where the room of a scratch chunk begins in the memory of all.
  int64_t ScratchFirst(int32_t chunk) const {
    const int64_t k = chunk - chunks;
    if (Tiles() > 1) return k * tile_elements;
    const int64_t like = k % chunks;
    return k / chunks * count + like * (count / chunks) + std::min(like, count % chunks);
  }
  int64_t ScratchElements(int32_t scratch) const { return ScratchFirst(chunks + scratch); }

  // Elements of this tile in chunks [first, first + n), the sum of their pieces.
  int64_t ElementsOf(int32_t first, int32_t n, int64_t tile) const {
    const int64_t longer = count % chunks;
    const auto longer_before = [&](int64_t chunk) {
      return chunk / chunks * longer + std::min(chunk % chunks, longer);
    };
    const int64_t long_ones = longer_before(int64_t{first} + n) - longer_before(first);
    const int64_t base = count / chunks;
    const auto part = [&](int64_t length) {
      return std::clamp<int64_t>(length - tile * tile_elements, 0, tile_elements);
    };
    return long_ones * part(base + 1) + (n - long_ones) * part(base);
  }
};

}  // namespace lockstep
