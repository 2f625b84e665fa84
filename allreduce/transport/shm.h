// shm.h: links between processes of one host through shared memory; a mesh of TCP control
// connections beside it (tcp.h) carries failure reports, goodbyes and the news of a death. Each
// rank makes a memfd and sends it to its peers over a unix socket in the abstract name space
// (SCM_RIGHTS: works without a file system, across pid namespaces, and where /proc is closed to
// other processes); a random number from the proven control connection says whom a file is from,
// strangers are ignored. Then every rank has mapped the memory of all (shm_layout.h). /dev/shm is
// not used; when the processes are gone, so is the memory. Waits: shm_bell.h.
// Errors: those of ConnectTcpMesh; ResourceExhausted with needed and available bytes, before
// anything is started; FailedPrecondition (ranks of several hosts, network namespaces or builds,
// both named); Unavailable naming a rank that went away. Blamed where a peer is at fault.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "allreduce/transport/link.h"
#include "allreduce/transport/shm_memory.h"
#include "allreduce/transport/tcp.h"

namespace lockstep {

// `group.channels` are rings per ordered pair of ranks. `listener` and the rest: ConnectTcpMesh.
absl::StatusOr<std::unique_ptr<Link>> ConnectShmMesh(Listener listener, const TcpGroup& group,
                                                     const Limits& limits, const Clock& clock,
                                                     const Abort& abort,
                                                     const MapFunction& map = MapShared);

}  // namespace lockstep
