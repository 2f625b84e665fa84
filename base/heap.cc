#include "base/heap.h"

#include <malloc.h>

namespace lockstep {

void KeepFreedMemory() {
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TOP_PAD, 64 << 20);
}

}  // namespace lockstep
