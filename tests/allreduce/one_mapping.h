// one_mapping.h: shared memory mapped once for all ranks of a process, for tests: thread sanitizer
// knows memory by its address, and would take each rank's own mapping for other memory.
// Thread-safe.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <utility>

#include "absl/status/statusor.h"
#include "allreduce/transport/shm_memory.h"
#include "base/check.h"
#include "base/sync.h"

namespace lockstep {

class OneMapping {
 public:
  absl::StatusOr<SharedMapping> Map(int fd, int64_t offset, int64_t bytes) {
    struct stat file {};
    CHECK_EQ(fstat(fd, &file), 0);
    MutexLock lock(&mu_);
    SharedMapping& mapping = mappings_[{file.st_ino, offset}];
    if (mapping != nullptr) return mapping;
    absl::StatusOr<SharedMapping> made = MapShared(fd, offset, bytes);
    if (made.ok()) mapping = *made;
    return made;
  }

 private:
  Mutex mu_;
  std::map<std::pair<ino_t, int64_t>, SharedMapping> mappings_ ABSL_GUARDED_BY(mu_);
};

}  // namespace lockstep
