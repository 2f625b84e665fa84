// shared_window.h: memory of every rank of a link that all its ranks have mapped, for collectives
// that read and write their peers' data in place. Nothing but a wait and its wake-up is decided
// here: what stands where, and when it may be touched, is the user's (host/window.h). Memory comes
// in areas, the same size on every rank; the first is there from the start, the others are made in
// three acts: CheckRoom, ReserveArea, and, once every rank has reserved, MapArea. Errors:
// ResourceExhausted with needed and available bytes; Await's are those of Link::Progress. Threads:
// the link's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/traffic.h"

namespace lockstep {

// Flags and mailboxes of two calls, and the blocks under way of data that lie elsewhere: bounded,
// so that a group of many ranks costs little before it allocates.
inline constexpr int64_t kFirstAreaBytes = int64_t{2} << 20;

class SharedWindow {
 public:
  struct Area {
    int64_t bytes = 0;
    std::vector<std::byte*> bases;  // [rank]: where this process has mapped that rank's part
  };

  virtual ~SharedWindow() = default;
  // The first has kFirstAreaBytes, zero until somebody writes them, aligned to a page.
  virtual const std::vector<Area>& areas() const = 0;

  // Would there be memory if every rank reserved so many bytes?
  virtual absl::Status CheckRoom(int64_t bytes) const = 0;
  // This rank's part of a new area: where it stands in this rank's memory, for MapArea. Local.
  virtual absl::StatusOr<int64_t> ReserveArea(int64_t bytes) = 0;
  // Maps the parts of all ranks, reserved at offsets[rank], as a further area. Local.
  virtual absl::Status MapArea(const std::vector<int64_t>& offsets, int64_t bytes) = 0;

  // Waits until arrived(peer) holds for every peer; once true it must stay so. Spins a little,
  // yields, then sleeps until a peer calls WakeAll.
  virtual absl::Status Await(absl::FunctionRef<bool(int peer)> arrived, int64_t deadline_ns) = 0;
  // To be called after every store that an arrived() of a peer looks at; both sequentially
  // consistent, or a sleeper may miss it.
  virtual void WakeAll() = 0;

  // Adds to the link's traffic what a collective has moved through the window.
  virtual void Count(const Traffic& traffic) = 0;
};

}  // namespace lockstep
