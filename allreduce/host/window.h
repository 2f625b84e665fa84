// window.h: the direct two-shot on memory that all ranks have mapped: rank r reads slice r of every
// rank, folds them in rank order and writes the sum to all, with a barrier before and after. The
// schedule DIRECT (schedule/direct.h) is its specification: same bits, same traffic; but a byte is
// read once and written once, where messages are copied in and out.
//   small data (OneShotBytes): they travel beside the flag, and every rank folds all: one barrier;
//   data in memory from Allocate, on every rank: in place;
//   else in blocks through a bounded part of the window, the copies of one block beside the fold of
//   the one before.
// A barrier is a flag a rank, which carries the header of the call: calls that differ are told as
// on any other link (CheckHeader). Errors: those of Link::Progress, and from Allocate
// ResourceExhausted, on every rank; after any the link is only good for reports. Threads: the
// link's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allreduce/host/executor.h"
#include "allreduce/transport/link.h"
#include "allreduce/transport/shared_window.h"

namespace lockstep {

class WindowAllReduce {
 public:
  static constexpr int64_t kMailBytes = 8192;

  // Null where the link has no window or a single rank. The link must outlive this.
  static std::unique_ptr<WindowAllReduce> Make(Link* link);

  // `call.count` bytes on every rank, aligned to a page; they live as long as the link. A
  // collective call: every rank asks for the same. `call.data` plays no part.
  absl::StatusOr<std::span<std::byte>> Allocate(const ExecuteCall& call);
  // Are these bytes all from one Allocate?
  bool Owns(const void* data, int64_t bytes) const { return PlaceOf(data, bytes) != kNowhere; }
  // All-reduces `call.data` in place. Ranks may mix allocated and other memory.
  absl::Status Run(const ExecuteCall& call);
  // The ranks that the last call was waiting for when it failed, ascending.
  std::vector<int> WaitingFor() const;

 private:
  static constexpr int64_t kNowhere = -1;

  // What a rank says when it enters: `phase` last, after everything that it announces.
  struct alignas(64) Flag {
    std::atomic<uint64_t> phase{0};
    MessageHeader header;
    int64_t place = kNowhere;
  };
  static_assert(sizeof(Flag) == 64, "a barrier moves one cache line a rank");
  struct Mail {
    Flag flag;
    std::byte data[kMailBytes];
  };
  // A rank's part of the first area. Two of each, used in turn: whoever is in phase p has left
  // p - 2 behind, since it has seen everybody enter p - 1.
  struct Board {
    Mail mails[2];
  };

  // A range of elements of the data.
  struct Part {
    int64_t first = 0;
    int64_t count = 0;
  };

  WindowAllReduce(Link* link, SharedWindow* window);

  Mail& MailOf(int rank, uint64_t phase) const;
  std::byte* InputOf(int rank, int64_t block) const;
  std::byte* ResultOf(int rank, int64_t block) const;
  int64_t PlaceOf(const void* data, int64_t bytes) const;
  std::byte* At(int rank, int64_t place, int64_t bytes) const;

  absl::Status Pass(int64_t deadline_ns);
  absl::Status Enter(const ExecuteCall& call, int64_t place);
  absl::Status CheckMails() const;
  absl::Status Agree(const ExecuteCall& call, const absl::Status& own, int64_t place);
  absl::Status FindSources(const ExecuteCall& call, bool* in_place);

  int64_t OneShotBytes() const;
  absl::Status OneShot(const ExecuteCall& call);
  absl::Status InPlace(const ExecuteCall& call);
  absl::Status InBlocks(const ExecuteCall& call);
  void CopyIn(const ExecuteCall& call, int64_t block);
  void FoldBlock(const ExecuteCall& call, int64_t block);
  void CopyOut(const ExecuteCall& call, int64_t block);
  void FoldTo(const ExecuteCall& call, int64_t count);
  void Count(int64_t messages, int64_t payload_bytes);

  Part BlockOf(const ExecuteCall& call, int64_t block) const;
  Part SliceOf(const ExecuteCall& call, Part of, int rank) const;

  Link* const link_;
  SharedWindow* const window_;
  const int rank_;
  const int n_;
  uint64_t phase_ = 0;
  std::vector<std::byte*> data_;           // [rank]: where its data begin; null: they are private
  std::vector<const std::byte*> sources_;  // [rank]: operands of the next fold
  std::vector<std::byte*> targets_;
};

}  // namespace lockstep
