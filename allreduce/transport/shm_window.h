// shm_window.h: the shared window (shared_window.h) of a link in shared memory. Errors and threads:
// as shared_window.h says.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "allreduce/transport/shared_window.h"
#include "allreduce/transport/shm_memory.h"
#include "allreduce/transport/shm_peers.h"
#include "base/socket.h"
#include "base/traffic.h"

namespace lockstep {

class ShmWindow final : public SharedWindow {
 public:
  // `files` is [rank], `first` the first area. `peers` and `traffic` must outlive the window.
  ShmWindow(std::vector<UniqueFd> files, MapFunction map, Area first, ShmPeers* peers,
            Traffic* traffic);

  const std::vector<Area>& areas() const override { return areas_; }
  absl::Status CheckRoom(int64_t bytes) const override;
  absl::StatusOr<int64_t> ReserveArea(int64_t bytes) override;
  absl::Status MapArea(const std::vector<int64_t>& offsets, int64_t bytes) override;
  absl::Status Await(absl::FunctionRef<bool(int peer)> arrived, int64_t deadline_ns) override;
  void WakeAll() override { peers_->WakeAll(); }
  void Count(const Traffic& traffic) override { *traffic_ += traffic; }

 private:
  absl::Status AwaitLong(absl::FunctionRef<bool(int peer)> arrived, int next, int64_t deadline_ns);

  const std::vector<UniqueFd> files_;
  const MapFunction map_;
  std::vector<Area> areas_;
  std::vector<SharedMapping> mappings_;  // of all areas but the first
  ShmPeers* const peers_;
  Traffic* const traffic_;
};

}  // namespace lockstep
