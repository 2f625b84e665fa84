// end.h: one process of one contestant of `lockstep bench ps`: a worker or a server, ours or a
// roof. A null step moves `bytes` from a worker to the servers, an equal part to each, and as much
// back:
//   ps    our server and client, SYNC: fold, optimizer, and every worker waits for all others
//   grpc  bare streams of byte buffers with the same channel settings and chunks; nothing is added
//         up, nobody waits for anybody else
//   tcp   the same over plain sockets, 1 MiB a call
// With rows, `bytes` are a table's: ps pushes and pulls so many of its rows in a step, spread
// evenly over it, and the roofs move as many bytes. Ranks [0, workers) are workers, the others
// servers. Errors: DeadlineExceeded (limits.sync_timeout_ms), Unavailable; each names the rank.
// Threads: one calls.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/limits.h"

namespace lockstep {

struct PsEndOptions {
  std::string engine;  // "ps", "grpc", "tcp"
  int rank = 0;
  int workers = 1;
  int servers = 1;
  int64_t bytes = 4;  // whole floats
  int rows = 0;       // of row_floats each; 0: no table
  int row_floats = 1;
  std::string token;
  Limits limits;

  bool serves() const { return rank >= workers; }
  // Of a worker's bytes that go to server k: whole floats, the first servers get what is left over.
  int64_t BytesOf(int server) const {
    const int64_t floats = bytes / 4;
    return 4 * (floats / servers + (server < floats % servers ? 1 : 0));
  }
};

class PsEnd {
 public:
  virtual ~PsEnd() = default;
  // Where workers reach it; empty for workers.
  virtual std::string Address() const { return ""; }
  // [rank].
  virtual absl::Status Connect(const std::vector<std::string>& addresses) = 0;
  // Workers: one null step.
  virtual absl::Status Step() = 0;
  // Servers: returns once `steps` more null steps of every worker are through.
  virtual absl::Status Serve(int64_t steps) = 0;
  // Servers: rows of tables that were pushed to it, so far.
  virtual int64_t Rows() const { return 0; }
  // Workers: whether the last step brought what it must.
  virtual bool Correct() const { return true; }
};

// `clock` and `abort` must outlive it.
absl::StatusOr<std::unique_ptr<PsEnd>> MakePsEnd(const PsEndOptions& options, const Clock& clock,
                                                 const Abort& abort);
absl::StatusOr<std::unique_ptr<PsEnd>> MakeOurEnd(const PsEndOptions& options, const Clock& clock,
                                                  const Abort& abort);
absl::StatusOr<std::unique_ptr<PsEnd>> MakeTcpEnd(const PsEndOptions& options, const Clock& clock,
                                                  const Abort& abort);

}  // namespace lockstep
