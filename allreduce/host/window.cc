#include "allreduce/host/window.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/numeric/fold.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr int64_t kLineBytes = 64;  // slices end at cache lines, so that no two ranks write to one

// Of data that must be copied in and out: what a core's own cache holds while it is copied, folded
// and copied back.
constexpr int64_t kBlockBytes = int64_t{256} << 10;
// The result of a block that a rank holds for the others: at most its half, and a line for
// rounding.
constexpr int64_t kResultBytes = kBlockBytes / 2 + kLineBytes;

// A part of the data that AVG folds and divides while it is in cache.
constexpr int64_t kAverageBytes = int64_t{16} << 10;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t LineElements(Dtype dtype) { return kLineBytes / SizeOf(dtype); }
int64_t BlockElements(Dtype dtype) { return kBlockBytes / SizeOf(dtype); }
int64_t Blocks(const ExecuteCall& call) { return CeilDiv(call.count, BlockElements(call.dtype)); }

}  // namespace

std::unique_ptr<WindowAllReduce> WindowAllReduce::Make(Link* link) {
  SharedWindow* const window = link->window();
  if (window == nullptr || link->world_size() == 1) return nullptr;
  return std::unique_ptr<WindowAllReduce>(new WindowAllReduce(link, window));
}

WindowAllReduce::WindowAllReduce(Link* link, SharedWindow* window)
    : link_(link),
      window_(window),
      rank_(link->rank()),
      n_(link->world_size()),
      data_(static_cast<size_t>(n_)),
      sources_(static_cast<size_t>(n_)) {
  static_assert(sizeof(Board) + 2 * kBlockBytes + 2 * kResultBytes <= kFirstAreaBytes);
  static_assert(sizeof(Board) % kLineBytes == 0);
}

// Memory that is zero is a board on which nobody has entered anything.
WindowAllReduce::Mail& WindowAllReduce::MailOf(int rank, uint64_t phase) const {
  auto* const board =
      reinterpret_cast<Board*>(window_->areas()[0].bases[static_cast<size_t>(rank)]);
  return board->mails[phase % 2];
}

std::byte* WindowAllReduce::InputOf(int rank, int64_t block) const {
  return window_->areas()[0].bases[static_cast<size_t>(rank)] + sizeof(Board) +
         block % 2 * kBlockBytes;
}

std::byte* WindowAllReduce::ResultOf(int rank, int64_t block) const {
  return InputOf(rank, 0) + 2 * kBlockBytes + block % 2 * kResultBytes;
}

// Where this rank's bytes stand, in a form that means the same to all: areas one behind the other.
int64_t WindowAllReduce::PlaceOf(const void* data, int64_t bytes) const {
  const auto* const start = static_cast<const std::byte*>(data);
  int64_t before = 0;
  for (size_t i = 1; i < window_->areas().size(); ++i) {
    const SharedWindow::Area& area = window_->areas()[i];
    const std::byte* const base = area.bases[static_cast<size_t>(rank_)];
    const std::less_equal<const std::byte*> not_after;
    if (not_after(base, start) && not_after(start + bytes, base + area.bytes)) {
      return before + (start - base);
    }
    before += area.bytes;
  }
  return kNowhere;
}

// Null unless the place has so many bytes: it comes from a peer.
std::byte* WindowAllReduce::At(int rank, int64_t place, int64_t bytes) const {
  for (size_t i = 1; i < window_->areas().size() && place >= 0; ++i) {
    const SharedWindow::Area& area = window_->areas()[i];
    if (place < area.bytes) {
      return bytes <= area.bytes - place ? area.bases[static_cast<size_t>(rank)] + place : nullptr;
    }
    place -= area.bytes;
  }
  return nullptr;
}

// Everything that this rank has written before is visible to whoever has passed.
absl::Status WindowAllReduce::Pass(int64_t deadline_ns) {
  ++phase_;
  MailOf(rank_, phase_).flag.phase.store(phase_);
  window_->WakeAll();
  return window_->Await(
      [this](int peer) { return MailOf(peer, phase_).flag.phase.load() == phase_; }, deadline_ns);
}

std::vector<int> WindowAllReduce::WaitingFor() const {
  std::vector<int> peers;
  for (int peer = 0; peer < n_; ++peer) {
    if (phase_ > 0 && MailOf(peer, phase_).flag.phase.load() != phase_) peers.push_back(peer);
  }
  return peers;
}

absl::Status WindowAllReduce::Enter(const ExecuteCall& call, int64_t place) {
  RETURN_IF_ERROR(link_->abort_status());
  Flag& flag = MailOf(rank_, phase_ + 1).flag;
  flag.header = MessageHeader{};
  flag.header.epoch = link_->epoch();
  flag.header.fingerprint = call.fingerprint;
  flag.header.sequence = phase_;
  flag.header.payload_bytes = static_cast<uint64_t>(call.count * SizeOf(call.dtype));
  flag.place = place;
  RETURN_IF_ERROR(Pass(call.deadline_ns));
  return CheckMails();
}

absl::Status WindowAllReduce::CheckMails() const {
  const MessageHeader& own = MailOf(rank_, phase_).flag.header;
  for (int peer = 0; peer < n_; ++peer) {
    const MessageHeader& other = MailOf(peer, phase_).flag.header;
    if (std::memcmp(&own, &other, sizeof(own)) == 0) continue;
    // No message is allocated for it, so it may be as large as the call.
    RETURN_IF_ERROR(CheckHeader(rank_, peer, own, other, std::numeric_limits<int64_t>::max()));
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank_, ": the header of rank ", peer, " was written by no Lockstep"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::span<std::byte>> WindowAllReduce::Allocate(const ExecuteCall& call) {
  const int64_t bytes = std::max<int64_t>(1, call.count);  // nothing at all would have no address
  // First everybody asks, so that nobody takes what all together cannot have.
  RETURN_IF_ERROR(Agree(call, window_->CheckRoom(bytes), /*place=*/0));
  const absl::StatusOr<int64_t> offset = window_->ReserveArea(bytes);
  RETURN_IF_ERROR(Agree(call, offset.status(), offset.ok() ? *offset : kNowhere));
  std::vector<int64_t> offsets;
  offsets.reserve(static_cast<size_t>(n_));
  for (int peer = 0; peer < n_; ++peer) offsets.push_back(MailOf(peer, phase_).flag.place);
  RETURN_IF_ERROR(window_->MapArea(offsets, bytes));
  return std::span(window_->areas().back().bases[static_cast<size_t>(rank_)],
                   static_cast<size_t>(call.count));
}

// OK if every rank says so; `place` is told to all.
absl::Status WindowAllReduce::Agree(const ExecuteCall& call, const absl::Status& own,
                                    int64_t place) {
  RETURN_IF_ERROR(Enter(call, own.ok() ? place : kNowhere));
  RETURN_IF_ERROR(own);
  std::vector<int> lacking;
  for (int peer = 0; peer < n_; ++peer) {
    if (MailOf(peer, phase_).flag.place == kNowhere) lacking.push_back(peer);
  }
  if (lacking.empty()) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("rank ", rank_, ": shared memory: ", call.count, " bytes a rank are needed, ",
                   lacking.size() == 1 ? "rank " : "ranks ", absl::StrJoin(lacking, ", "),
                   " could not have them"));
}

absl::Status WindowAllReduce::Run(const ExecuteCall& call) {
  const int64_t bytes = call.count * SizeOf(call.dtype);
  if (bytes <= OneShotBytes()) return OneShot(call);
  const int64_t place = PlaceOf(call.data, bytes);
  data_[static_cast<size_t>(rank_)] =
      place == kNowhere ? nullptr : static_cast<std::byte*>(call.data);
  if (place == kNowhere) CopyIn(call, 0);
  RETURN_IF_ERROR(Enter(call, place));
  bool in_place = true;
  RETURN_IF_ERROR(FindSources(call, &in_place));
  RETURN_IF_ERROR(in_place ? InPlace(call) : InBlocks(call));
  // As DIRECT would: everybody's part comes here or goes from here once, its sum likewise.
  const int64_t own = SliceOf(call, {0, call.count}, rank_).count * SizeOf(call.dtype);
  Count(int64_t{2} * (n_ - 1), (bytes - own) + own * (n_ - 1));
  return absl::OkStatus();
}

absl::Status WindowAllReduce::FindSources(const ExecuteCall& call, bool* in_place) {
  const int64_t bytes = call.count * SizeOf(call.dtype);
  for (int peer = 0; peer < n_; ++peer) {
    const int64_t place = MailOf(peer, phase_).flag.place;
    std::byte* const data = At(peer, place, bytes);
    if (place != kNowhere && data == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("rank ", rank_, ": rank ", peer, " announces ",
                                                     bytes, " bytes at place ", place,
                                                     " of its window, where they are not"));
    }
    data_[static_cast<size_t>(peer)] = data;
    *in_place = *in_place && data != nullptr;
  }
  return absl::OkStatus();
}

// A second barrier costs more than to fold everything n times; between two ranks it is cheap.
// Counted in ranks alone, since all must choose alike.
int64_t WindowAllReduce::OneShotBytes() const { return n_ == 2 ? kMailBytes / 8 : kMailBytes; }

absl::Status WindowAllReduce::OneShot(const ExecuteCall& call) {
  const auto bytes = static_cast<size_t>(call.count * SizeOf(call.dtype));
  if (bytes > 0) std::memcpy(MailOf(rank_, phase_ + 1).data, call.data, bytes);
  RETURN_IF_ERROR(Enter(call, kNowhere));
  for (int peer = 0; peer < n_; ++peer) {
    sources_[static_cast<size_t>(peer)] = MailOf(peer, phase_).data;
  }
  targets_.assign(1, static_cast<std::byte*>(call.data));
  FoldTo(call, call.count);
  Count(n_ - 1, static_cast<int64_t>(bytes) * (n_ - 1));
  return absl::OkStatus();
}

absl::Status WindowAllReduce::InPlace(const ExecuteCall& call) {
  const Part slice = SliceOf(call, {0, call.count}, rank_);
  const int64_t offset = slice.first * SizeOf(call.dtype);
  targets_.clear();
  for (size_t rank = 0; rank < data_.size(); ++rank) {
    sources_[rank] = data_[rank] + offset;
    targets_.push_back(data_[rank] + offset);
  }
  FoldTo(call, slice.count);
  return Pass(call.deadline_ns);
}

// While block b is folded, block b + 1 is being copied in, so that a block costs one barrier.
// Inputs of b - 1 have been folded by all when b is entered, results of b - 2 copied out: two of
// each are enough.
absl::Status WindowAllReduce::InBlocks(const ExecuteCall& call) {
  const int64_t blocks = Blocks(call);
  for (int64_t block = 0; block < blocks; ++block) {
    if (block + 1 < blocks) CopyIn(call, block + 1);
    FoldBlock(call, block);
    RETURN_IF_ERROR(Pass(call.deadline_ns));
    CopyOut(call, block);
  }
  return absl::OkStatus();
}

WindowAllReduce::Part WindowAllReduce::BlockOf(const ExecuteCall& call, int64_t block) const {
  const int64_t first = block * BlockElements(call.dtype);
  return {first, std::min(BlockElements(call.dtype), call.count - first)};
}

WindowAllReduce::Part WindowAllReduce::SliceOf(const ExecuteCall& call, Part of, int rank) const {
  const int64_t line = LineElements(call.dtype);
  const int64_t length = CeilDiv(CeilDiv(of.count, n_), line) * line;
  const int64_t skipped = std::min(rank * length, of.count);
  return {of.first + skipped, std::min(length, of.count - skipped)};
}

// What others fold of this rank's block; its own slice is read where it stands.
void WindowAllReduce::CopyIn(const ExecuteCall& call, int64_t block) {
  if (data_[static_cast<size_t>(rank_)] != nullptr) return;  // they can read it there themselves
  const int64_t size = SizeOf(call.dtype);
  const auto* const data = static_cast<const std::byte*>(call.data);
  const Part part = BlockOf(call, block);
  for (int owner = 0; owner < n_; ++owner) {
    const Part slice = SliceOf(call, part, owner);
    if (owner == rank_ || slice.count == 0) continue;
    std::memcpy(InputOf(rank_, block) + (slice.first - part.first) * size,
                data + slice.first * size, static_cast<size_t>(slice.count * size));
  }
}

void WindowAllReduce::FoldBlock(const ExecuteCall& call, int64_t block) {
  const int64_t size = SizeOf(call.dtype);
  const Part part = BlockOf(call, block);
  const Part slice = SliceOf(call, part, rank_);
  for (int peer = 0; peer < n_; ++peer) {
    const auto p = static_cast<size_t>(peer);
    const std::byte* const data =
        peer == rank_ ? static_cast<const std::byte*>(call.data) : data_[p];
    sources_[p] = data != nullptr ? data + slice.first * size
                                  : InputOf(peer, block) + (slice.first - part.first) * size;
  }
  targets_ = {static_cast<std::byte*>(call.data) + slice.first * size, ResultOf(rank_, block)};
  FoldTo(call, slice.count);
}

void WindowAllReduce::CopyOut(const ExecuteCall& call, int64_t block) {
  const int64_t size = SizeOf(call.dtype);
  const Part part = BlockOf(call, block);
  for (int owner = 0; owner < n_; ++owner) {
    const Part slice = SliceOf(call, part, owner);
    if (owner == rank_ || slice.count == 0) continue;
    std::memcpy(static_cast<std::byte*>(call.data) + slice.first * size, ResultOf(owner, block),
                static_cast<size_t>(slice.count * size));
  }
}

// Folds `count` elements of sources_ and stores them to all of targets_. AVG divides a part that is
// still in cache, once, before it is spread.
void WindowAllReduce::FoldTo(const ExecuteCall& call, int64_t count) {
  if (call.op != ReduceOp::kAvg) {
    FoldAll(call.dtype, call.op, {sources_, targets_}, count);
    return;
  }
  const int64_t size = SizeOf(call.dtype);
  for (int64_t first = 0; first < count; first += kAverageBytes / size) {
    const int64_t some = std::min(kAverageBytes / size, count - first);
    FoldAll(call.dtype, ReduceOp::kSum, {sources_, std::span(targets_).first(1)}, some);
    Average(call.dtype, targets_[0], n_, some);
    for (size_t i = 1; i < targets_.size(); ++i) {
      std::memcpy(targets_[i], targets_[0], static_cast<size_t>(some * size));
    }
    for (const std::byte*& source : sources_) source += some * size;
    for (std::byte*& target : targets_) target += some * size;
  }
}

void WindowAllReduce::Count(int64_t messages, int64_t payload_bytes) {
  Traffic traffic;
  traffic.sent_messages = traffic.received_messages = messages;
  traffic.sent_bytes = traffic.received_bytes =
      payload_bytes + messages * static_cast<int64_t>(sizeof(MessageHeader));
  window_->Count(traffic);
}

}  // namespace lockstep
