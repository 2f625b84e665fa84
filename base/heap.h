// heap.h: glibc's heap, set for messages of a mebibyte that come and go.
#pragma once

namespace lockstep {

// By default glibc gives freed memory back between two messages and faults it in again for the
// next: ten times the page faults and half the throughput. Call it first in main, before any
// thread.
void KeepFreedMemory();

}  // namespace lockstep
