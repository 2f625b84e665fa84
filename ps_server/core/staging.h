// staging.h: one worker's push (or the start values) of a shard while its chunks arrive.
// Chunks come in any order; pieces may be cut anywhere, within an element too. Every element is
// taken once: a chunk that lies wholly in what is here is a duplicate. Elements stay as they
// travelled until they are read: those of a large chunk whose bytes have an owner where they came,
// others in a copy, so that what is held is what came, and never more than four bytes an element.
// Rows of a table (rows.h) come by number: those that do not are zeros, and the table is held.
// Errors: InvalidArgument (a chunk that overlaps in part), ResourceExhausted (too many scattered
// chunks). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/numeric/dtype.h"
#include "ps_server/core/rows.h"

namespace lockstep {

using Bytes = std::span<const std::byte>;

inline int64_t CountBytes(std::span<const Bytes> pieces) {
  int64_t bytes = 0;
  for (const Bytes piece : pieces) bytes += static_cast<int64_t>(piece.size());
  return bytes;
}

// Held of an element at most: two or four bytes as it travels, or a float of a table.
inline constexpr int64_t kStagedBytesPerElement = 4;

// A chunk of so many bytes is kept instead of copied, if its pieces have as many on average as the
// second: what a chunk and its pieces cost beside their bytes would else be a peer's to choose. So
// smaller ones that follow each other share a copy.
inline constexpr int64_t kKeptBytesMin = 4096;
inline constexpr int64_t kKeptPieceBytesMin = 1024;

class Staging {
 public:
  enum class Took { kNew, kDuplicate };

  // Empty again, for a shard of `count` elements that travel as `wire`: f32, f16 or bf16. The
  // memory of tables that came by rows stays for the next push.
  void Reset(int64_t count, Dtype wire);
  // Puts the elements [offset, offset + count), whose bytes are `pieces` one after the other; they
  // stay as they are while `owner` is held. Null: they are read now.
  // REQUIRES: the range lies in the shard, count > 0, `pieces` hold `count` elements.
  absl::StatusOr<Took> Add(int64_t offset, int64_t count, std::span<const Bytes> pieces,
                           const std::shared_ptr<const void>& owner = nullptr);

  // Puts rows of a table, whose bytes are `pieces` one after the other; the rest of the table is
  // zeros once `rows.last` is said. A frame's rows are all new or all duplicates. REQUIRES: the
  // rows have passed CheckRows, `pieces` hold as many.
  absl::StatusOr<Took> AddRows(const ShardRows& rows, std::span<const Bytes> pieces);

  bool complete() const { return staged_ > 0 && staged_ == count_; }
  bool empty() const;
  int64_t staged() const { return staged_; }  // elements
  // What has come in chunks: begin -> end, disjoint and not adjacent.
  const std::map<int64_t, int64_t>& covered() const { return covered_; }
  // The elements [begin, begin + count), widened to f32. REQUIRES: they are here.
  void Read(int64_t begin, int64_t count, float* to) const;
  // Adds them to as many floats, each addition rounded: without a copy where they are f32.
  void AddTo(int64_t begin, int64_t count, float* sum) const;
  // These elements, which are here in chunks, count as such, but nobody reads them any more; the
  // bytes of a chunk go with the last of them. REQUIRES: it is said of each once.
  void Release(int64_t begin, int64_t count);
  // What is held: the elements' bytes, and what goes with them.
  int64_t held_bytes() const;

 private:
  // A table of which rows come.
  struct Rows {
    int64_t begin = 0;  // elements [begin, end) of the shard are the table's
    int64_t end = 0;
    std::vector<float> values;
    std::vector<bool> here;  // [row - the first one in the shard]
    int64_t count = 0;       // of those that are here
    bool begun = false;      // in this push
    bool closed = false;
  };
  struct Chunk {
    int64_t count = 0;
    std::vector<Bytes> pieces;
    std::vector<int64_t> ends;  // [piece]: in the chunk's bytes
    std::shared_ptr<const void> owner;
    bool copied = false;   // they are not where they came
    int64_t released = 0;  // elements
  };
  static bool IsKept(std::span<const Bytes> pieces);
  void Keep(int64_t offset, int64_t count, std::span<const Bytes> pieces,
            const std::shared_ptr<const void>& owner, bool copied);
  void Copy(int64_t offset, int64_t count, std::span<const Bytes> pieces);
  // Calls `each(pieces, at, here)` for elements [begin + at, begin + at + here) that are in one
  // chunk, or `row_values(values, at, here)` for those in one table.
  template <typename Each, typename RowValues>
  void ForEachPart(int64_t begin, int64_t count, const Each& each,
                   const RowValues& row_values) const;
  void Merge(int64_t begin, int64_t end);
  void Put(std::span<const Bytes> pieces, float* values) const;
  const Rows& TableAt(int64_t element) const;
  absl::StatusOr<Rows*> RowsOf(const TableRows& table);
  absl::Status CheckNotByRows(int64_t begin, int64_t end) const;

  int64_t count_ = 0;
  Dtype wire_ = Dtype::kF32;
  std::map<int64_t, Chunk> chunks_;  // by offset
  std::map<int64_t, int64_t> covered_;
  std::map<int32_t, Rows> tables_;  // by tensor
  std::vector<float> rows_;         // of one frame
  int64_t staged_ = 0;
};

}  // namespace lockstep
