// What stands in for libnccl.so.2 in tests: NCCL's functions over host memory, between threads and
// processes alike. Ranks meet in a memory file whose path is the unique id. As with NCCL, a
// non-blocking call returns before it has done anything, a collective runs in the order of its
// stream, and one whose peer is gone never ends: the communicator tells of it, and an abort ends
// it.
#include "tests/allreduce/nccl/fake_nccl.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "allreduce/nccl/abi.h"
#include "tests/allreduce/nccl/fake_fold.h"
#include "tests/allreduce/nccl/host_stream.h"

#ifndef FAKE_VERSION
#define FAKE_VERSION 22809
#endif

namespace lockstep {
namespace {

using nccl::DataType;
using nccl::RedOp;
using nccl::Result;

constexpr int kRanksMax = 16;
constexpr size_t kPieceBytes = 4096;  // small, so that larger calls take turns
constexpr int kPollsBeforeReady = 3;

struct Slot {
  std::atomic<uint64_t> posted;  // pieces
  std::atomic<uint64_t> taken;
  std::atomic<bool> gone;
  std::byte bytes[kPieceBytes];
};
struct Shared {
  std::atomic<int> arrived;
  std::atomic<int> leaving;
  Slot slots[kRanksMax];
};

FakeNccl& Switches() {
  static FakeNccl switches;
  return switches;
}

// One mapping a process, so that a sanitizer sees that its threads mean the same bytes. It stays.
Shared* Meet(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, Shared*> known;
  const std::lock_guard lock(mutex);
  Shared*& shared = known[path];
  if (shared != nullptr) return shared;
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory != MAP_FAILED) shared = static_cast<Shared*>(memory);
  return shared;
}

}  // namespace

namespace nccl {

struct Comm {
  Shared* shared = nullptr;
  int rank = 0;
  int n = 1;
  uint64_t pieces = 0;  // of the stream's thread alone
  std::atomic<Result> state = kInProgress;
  std::atomic<bool> aborted = false;
  std::atomic<int> under_way = 0;  // work in a stream
  int polls = 0;                   // until what was started happens
  bool arrived = false;
  bool leaving = false;
  std::function<void()> pending;
  std::string error;

  Slot& own() const { return shared->slots[rank]; }

  // False: aborted. A peer that is gone is told of, and waited for all the same.
  template <typename Ready>
  bool AwaitPeers(const Ready& ready) {
    for (int peer = 0; peer < n; ++peer) {
      while (!ready(shared->slots[peer])) {
        if (aborted) return false;
        if (shared->slots[peer].gone) state = kRemoteError;
        sched_yield();
      }
    }
    return true;
  }

  // Everybody's `bytes` are in their slots when take(peer, bytes) is called for each.
  template <typename Take>
  bool Exchange(const std::byte* data, size_t bytes, const Take& take) {
    const uint64_t before = pieces++;
    if (!AwaitPeers([&](const Slot& slot) { return slot.taken >= before; })) return false;
    std::memcpy(own().bytes, data, bytes);
    own().posted = pieces;
    if (!AwaitPeers([&](const Slot& slot) { return slot.posted >= pieces; })) return false;
    for (int peer = 0; peer < n; ++peer) take(peer, shared->slots[peer].bytes);
    own().taken = pieces;
    return true;
  }

  // Once what was started has happened.
  Result Poll() {
    if (state != kInProgress || polls++ < kPollsBeforeReady) return state;
    if (pending) {
      pending();
      pending = nullptr;
      state = kSuccess;
    } else if (leaving) {
      if (shared->leaving == n && !Switches().leaving_hangs) state = kSuccess;
    } else if (shared->arrived == n && Switches().init_hangs != rank) {
      state = Switches().init_fails == rank ? kSystemError : kSuccess;
    }
    return state;
  }
};

}  // namespace nccl

namespace {

using nccl::Comm;

struct Work {
  Comm* comm = nullptr;
  std::function<void()> run;
};

Result Begin(Comm* comm, void* stream, std::function<void()> run) {
  while (Switches().call_blocks == comm->rank) sched_yield();
  comm->polls = 0;
  comm->state = nccl::kInProgress;
  comm->pending = [comm, stream, run = std::move(run)] {
    auto* const host = static_cast<HostStream*>(stream);
    ++comm->under_way;
    host->enqueue(
        host,
        [](void* context) {
          const std::unique_ptr<Work> work(static_cast<Work*>(context));
          ++Switches().kernels;
          while (Switches().kernel_hangs == work->comm->rank && !work->comm->aborted) sched_yield();
          if (!work->comm->aborted) work->run();
          --work->comm->under_way;
        },
        new Work{comm, run});
  };
  return nccl::kInProgress;
}

// Cuts `count` elements into pieces that fit a slot: body(first element, elements) until false.
template <typename Body>
void InPieces(size_t count, size_t element_bytes, const Body& body) {
  const size_t step = kPieceBytes / element_bytes;
  for (size_t first = 0; first < count; first += step) {
    if (!body(first, std::min(step, count - first))) return;
  }
}

// The reduction of all ranks' elements at `send`, for those that `take` them to `recv`.
void ReduceTo(Comm* comm, const void* send, void* recv, size_t count, DataType type, RedOp op,
              bool take) {
  const size_t size = FakeSizeOf(type);
  InPieces(count, size, [&](size_t first, size_t elements) {
    const auto* const data = static_cast<const std::byte*>(send) + first * size;
    std::byte result[kPieceBytes];
    const bool through =
        comm->Exchange(data, elements * size, [&](int peer, const std::byte* bytes) {
          if (peer == 0) std::memcpy(result, bytes, elements * size);
          if (peer != 0) FakeFold(type, op, bytes, result, elements);
        });
    if (through && take) {
      std::memcpy(static_cast<std::byte*>(recv) + first * size, result, elements * size);
    }
    return through;
  });
}

}  // namespace
}  // namespace lockstep

using lockstep::FakeNccl;
using lockstep::FakeSizeOf;
using lockstep::nccl::Comm;
using lockstep::nccl::Config;
using lockstep::nccl::DataType;
using lockstep::nccl::RedOp;
using lockstep::nccl::Result;
using lockstep::nccl::UniqueId;

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED FakeNccl* FakeNcclSwitches() { return &lockstep::Switches(); }

EXPORTED Result ncclGetVersion(int* version) {
  *version = FAKE_VERSION;
  return lockstep::nccl::kSuccess;
}

EXPORTED const char* ncclGetErrorString(Result result) {
  switch (result) {
    case lockstep::nccl::kSystemError:
      return "unhandled system error";
    case lockstep::nccl::kRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "another error";
  }
}

EXPORTED const char* ncclGetLastError(Comm* comm) {
  return comm == nullptr ? "" : comm->error.c_str();
}

EXPORTED Result ncclGetUniqueId(UniqueId* id) {
  const int fd = memfd_create("nccl", MFD_CLOEXEC);  // open as long as the process lives
  if (fd < 0 || ftruncate(fd, sizeof(lockstep::Shared)) != 0) return lockstep::nccl::kSystemError;
  std::snprintf(id->internal, sizeof(id->internal), "/proc/%d/fd/%d", getpid(), fd);
  return lockstep::nccl::kSuccess;
}

EXPORTED Result ncclCommInitRankConfig(Comm** comm, int ranks, UniqueId id, int rank,
                                       Config* config) {
  if (config->size != sizeof(Config) || config->magic != 0xcafebeef || config->blocking != 0 ||
      ranks > lockstep::kRanksMax) {
    return lockstep::nccl::kInvalidArgument;
  }
  ++lockstep::Switches().inits;
  *comm = new Comm;
  (*comm)->shared = lockstep::Meet(id.internal);
  if ((*comm)->shared == nullptr) return lockstep::nccl::kSystemError;
  (*comm)->rank = rank;
  (*comm)->n = ranks;
  ++(*comm)->shared->arrived;
  return lockstep::nccl::kInProgress;
}

EXPORTED Result ncclCommGetAsyncError(Comm* comm, Result* async_error) {
  if (lockstep::Switches().async_error == comm->rank && comm->under_way > 0) {
    comm->error = "the wire broke";
    comm->state = lockstep::nccl::kSystemError;
  }
  *async_error = comm->Poll();
  return lockstep::nccl::kSuccess;
}

EXPORTED Result ncclCommFinalize(Comm* comm) {
  comm->polls = 0;
  comm->leaving = true;
  comm->state = lockstep::nccl::kInProgress;
  ++comm->shared->leaving;
  return lockstep::nccl::kInProgress;
}

EXPORTED Result ncclCommDestroy(Comm* comm) {
  ++lockstep::Switches().destroyed;
  delete comm;
  return lockstep::nccl::kSuccess;
}

#ifndef FAKE_LACKS_ABORT
EXPORTED Result ncclCommAbort(Comm* comm) {
  ++lockstep::Switches().aborts;
  comm->aborted = true;
  if (comm->shared != nullptr) comm->own().gone = true;
  while (comm->under_way > 0) sched_yield();
  delete comm;
  return lockstep::nccl::kSuccess;
}
#endif

EXPORTED Result ncclAllReduce(const void* send, void* recv, size_t count, DataType type, RedOp op,
                              Comm* comm, void* stream) {
  return lockstep::Begin(comm, stream,
                         [=] { lockstep::ReduceTo(comm, send, recv, count, type, op, true); });
}

EXPORTED Result ncclReduce(const void* send, void* recv, size_t count, DataType type, RedOp op,
                           int root, Comm* comm, void* stream) {
  return lockstep::Begin(comm, stream, [=] {
    lockstep::ReduceTo(comm, send, recv, count, type, op, comm->rank == root);
  });
}

EXPORTED Result ncclReduceScatter(const void* send, void* recv, size_t recv_count, DataType type,
                                  RedOp op, Comm* comm, void* stream) {
  return lockstep::Begin(comm, stream, [=] {
    for (int part = 0; part < comm->n; ++part) {
      const auto* const data = static_cast<const std::byte*>(send) +
                               static_cast<size_t>(part) * recv_count * FakeSizeOf(type);
      lockstep::ReduceTo(comm, data, recv, recv_count, type, op, comm->rank == part);
    }
  });
}

EXPORTED Result ncclBroadcast(const void* send, void* recv, size_t count, DataType type, int root,
                              Comm* comm, void* stream) {
  return lockstep::Begin(comm, stream, [=] {
    const size_t size = FakeSizeOf(type);
    lockstep::InPieces(count, size, [&](size_t first, size_t elements) {
      const auto* const data = static_cast<const std::byte*>(send) + first * size;
      return comm->Exchange(data, elements * size, [&](int peer, const std::byte* bytes) {
        if (peer != root) return;
        std::memcpy(static_cast<std::byte*>(recv) + first * size, bytes, elements * size);
      });
    });
  });
}

EXPORTED Result ncclAllGather(const void* send, void* recv, size_t send_count, DataType type,
                              Comm* comm, void* stream) {
  return lockstep::Begin(comm, stream, [=] {
    const size_t size = FakeSizeOf(type);
    lockstep::InPieces(send_count, size, [&](size_t first, size_t elements) {
      const auto* const data = static_cast<const std::byte*>(send) + first * size;
      return comm->Exchange(data, elements * size, [&](int peer, const std::byte* bytes) {
        const size_t place = static_cast<size_t>(peer) * send_count + first;
        std::memcpy(static_cast<std::byte*>(recv) + place * size, bytes, elements * size);
      });
    });
  });
}
