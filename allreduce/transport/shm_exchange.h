// shm_exchange.h: how the ranks of a group hand each other a file descriptor: greetings over the
// control connections tell each peer's unix socket, host and shape, then each sends its file to
// every peer. Errors: FailedPrecondition (another host or shape, both sides named), Unavailable (a
// peer went away), DeadlineExceeded (names all that are missing), the Abort's own; all but the last
// with BlamedBy(). Threads: one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/socket.h"

namespace lockstep {

inline constexpr uint32_t kShmMagic = 0x4C'53'4D'31;  // "LSM1"
inline constexpr uint32_t kShmVersion = 1;

struct ShmGreeting {
  uint32_t magic = kShmMagic;
  uint32_t version = kShmVersion;
  int32_t channels = 0;
  uint32_t unused = 0;
  int64_t total_bytes = 0;             // of the memory that each rank shares
  uint64_t network = 0;                // the network namespace, in which unix names count
  std::array<char, 36> boot{};         // the kernel's boot id: one per running host
  std::array<char, 12> socket{};       // abstract name, zeros behind it
  std::array<std::byte, 16> secret{};  // whoever sends a file to this rank must know it
};
static_assert(sizeof(ShmGreeting) == 96, "no padding: sent as bytes");

class ShmExchange {
 public:
  // `controls` is [rank], proven connections, invalid for the rank itself; all must outlive this.
  ShmExchange(int rank, const std::vector<UniqueFd>& controls, const Clock& clock,
              const Abort& abort, int64_t deadline_ns);

  // Every rank greets every other; afterwards all are known to have the same shape.
  absl::Status Greet(int channels, int64_t total_bytes);
  // Sends `file` to all, and returns theirs; the own place is empty.
  absl::StatusOr<std::vector<UniqueFd>> Share(int file);

 private:
  struct Peer {
    ShmGreeting greeting;
    size_t sent = 0;  // bytes of our greeting
    size_t received = 0;
    bool file_sent = false;
    bool gone = false;
  };

  bool Complete(int peer) const;  // of the present phase
  absl::Status Bind(ShmGreeting* own);
  absl::Status Check(int peer) const;
  absl::Status MoveGreeting(int peer);
  absl::Status SendFile(int file, int peer);
  void TakeFiles();
  void Place(std::vector<UniqueFd> received, const std::byte* message, size_t bytes);
  absl::Status Wait();
  absl::Status GoneError() const;
  absl::Status Missing(const std::string& what) const;

  const int rank_;
  const std::vector<UniqueFd>& controls_;
  const Clock& clock_;
  const Abort& abort_;
  const int64_t deadline_ns_;
  UniqueFd socket_;
  ShmGreeting own_;
  std::vector<Peer> peers_;      // [rank]
  std::vector<UniqueFd> files_;  // [rank]
  bool sharing_ = false;         // past the greetings
};

}  // namespace lockstep
