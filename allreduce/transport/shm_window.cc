#include "allreduce/transport/shm_window.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "allreduce/transport/link.h"
#include "base/check.h"
#include "base/status.h"

namespace lockstep {

ShmWindow::ShmWindow(std::vector<UniqueFd> files, MapFunction map, Area first, ShmPeers* peers,
                     Traffic* traffic)
    : files_(std::move(files)), map_(std::move(map)), peers_(peers), traffic_(traffic) {
  areas_.push_back(std::move(first));
}

absl::Status ShmWindow::CheckRoom(int64_t bytes) const {
  return Annotate(CheckMemory(bytes, peers_->world_size()), absl::StrCat("rank ", peers_->rank()));
}

absl::StatusOr<int64_t> ShmWindow::ReserveArea(int64_t bytes) {
  absl::StatusOr<int64_t> offset =
      Grow(files_[static_cast<size_t>(peers_->rank())].get(), PageAligned(bytes));
  if (!offset.ok()) return Annotate(offset.status(), absl::StrCat("rank ", peers_->rank()));
  return offset;
}

absl::Status ShmWindow::MapArea(const std::vector<int64_t>& offsets, int64_t bytes) {
  CHECK_EQ(offsets.size(), files_.size());
  Area area;
  area.bytes = bytes;
  std::vector<SharedMapping> mappings;
  for (size_t rank = 0; rank < files_.size(); ++rank) {
    const std::string ranks = absl::StrCat("rank ", peers_->rank(), ", memory of rank ", rank);
    const int fd = files_[rank].get();
    RETURN_IF_ERROR(Annotate(CheckSharedFile(fd, offsets[rank] + PageAligned(bytes)), ranks));
    absl::StatusOr<SharedMapping> mapping = map_(fd, offsets[rank], PageAligned(bytes));
    if (!mapping.ok()) return Annotate(mapping.status(), ranks);
    area.bases.push_back(mapping->get());
    mappings.push_back(*std::move(mapping));
  }
  areas_.push_back(std::move(area));
  for (SharedMapping& mapping : mappings) mappings_.push_back(std::move(mapping));
  return absl::OkStatus();
}

absl::Status ShmWindow::Await(absl::FunctionRef<bool(int peer)> arrived, int64_t deadline_ns) {
  const int n = peers_->world_size();
  SpinWait spin = peers_->NewSpin();
  for (int next = 0; next < n;) {
    if (next == peers_->rank() || arrived(next)) {
      ++next;
    } else if (!spin.Turn()) {
      return AwaitLong(arrived, next, deadline_ns);
    }
  }
  return absl::OkStatus();
}

absl::Status ShmWindow::AwaitLong(absl::FunctionRef<bool(int peer)> arrived, int next,
                                  int64_t deadline_ns) {
  const int n = peers_->world_size();
  const auto missing = [&](int peer) { return peer != peers_->rank() && !arrived(peer); };
  const auto all = [&] {
    while (next < n && !missing(next)) ++next;
    return next == n;
  };
  for (int sleeps = 0; !all(); ++sleeps) {
    RETURN_IF_ERROR(peers_->Look(missing));
    if (peers_->Late(deadline_ns)) {
      std::vector<int> late;
      for (int peer = next; peer < n; ++peer) {
        if (missing(peer)) late.push_back(peer);
      }
      return PendingError(peers_->rank(), late, {});
    }
    peers_->Sleep(all, sleeps, deadline_ns);
  }
  return absl::OkStatus();
}

}  // namespace lockstep
