// shm_memory.h: memory that processes of one host share without a name in any file system, so that
// neither /dev/shm's size nor its mount matters, and nothing is left when the processes are gone: a
// memfd that may grow but never shrink (a peer that cut it would kill us by SIGBUS). Every byte is
// allocated before it is mapped: lack of memory is ResourceExhausted with needed and available
// bytes, never a signal. Threads: one object, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/socket.h"

namespace lockstep {

// What this process may still allocate: the host's MemAvailable, the room in its memory cgroups,
// and the limit on file sizes (RLIMIT_FSIZE applies to a memfd too, with a signal).
int64_t AvailableMemoryBytes();

// OK if `bytes` on each of `ranks` ranks of this host are available.
absl::Status CheckMemory(int64_t bytes, int ranks);

// Rounded up to whole pages.
int64_t PageAligned(int64_t bytes);

// An own file, empty.
absl::StatusOr<UniqueFd> MakeSharedFile();
// OK if a file from a peer is shared memory that cannot shrink and has at least `bytes`.
absl::Status CheckSharedFile(int fd, int64_t bytes);
// Appends `bytes` (whole pages) of zeros that are there; returns where they begin.
absl::StatusOr<int64_t> Grow(int fd, int64_t bytes);

// A mapping, unmapped with its last owner. Shared: where ranks are threads of one process (tests
// under a sanitizer that tells addresses apart), they may use one mapping together.
using SharedMapping = std::shared_ptr<std::byte>;
using MapFunction =
    std::function<absl::StatusOr<SharedMapping>(int fd, int64_t offset, int64_t bytes)>;
absl::StatusOr<SharedMapping> MapShared(int fd, int64_t offset, int64_t bytes);

}  // namespace lockstep
