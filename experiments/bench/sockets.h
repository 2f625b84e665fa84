// sockets.h: what the kernel knows of this process's TCP connections, whoever opened them, so that
// a library that counts nothing can be compared by the same measure. Linux. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

struct TcpSockets {
  int connections = 0;
  int64_t sent_bytes = 0;  // payload of all connections since they were opened, repeats excluded
  std::string congestion;  // "cubic"; "bbr+cubic" where they differ; empty without connections
};

TcpSockets LookAtTcpSockets();

}  // namespace lockstep
