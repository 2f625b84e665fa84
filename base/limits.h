// limits.h: the bound of every wait, queue and message, in one struct with one table.
// The spec's `limits { }` message has a field of the same name for each row
// (base/member/limits_proto.h).
#pragma once

#include <array>
#include <cstdint>

namespace lockstep {

struct Limits {
  int64_t join_timeout_ms = 30'000;
  int64_t connect_timeout_ms = 10'000;
  int64_t sync_timeout_ms = 30'000;
  int64_t heartbeat_ms = 250;
  int64_t lease_ms = 5'000;
  int64_t stop_grace_ms = 3'000;
  int64_t waiting_line_ms = 5'000;
  int64_t message_bytes_max = int64_t{64} << 20;
  int64_t chunk_bytes = int64_t{1} << 20;
  int64_t window_chunks = 8;
  int64_t staged_bytes_max = int64_t{4} << 30;
  int64_t snapshot_bytes_max = int64_t{16} << 20;
  int64_t settle_ms = 300;
  int64_t answer_grace_ms = 500;
  int64_t rebuild_timeout_ms = 30'000;
  int64_t device_timeout_ms = 30'000;
};

struct LimitRow {
  const char* name;
  int64_t Limits::*field;
  int64_t min;
  int64_t max;
  const char* meaning;
};

inline constexpr int64_t kDayMs = 86'400'000;
inline constexpr std::array<LimitRow, 16> kLimitRows = {{
    {"join_timeout_ms", &Limits::join_timeout_ms, 1, kDayMs, "all declared members have joined"},
    {"connect_timeout_ms", &Limits::connect_timeout_ms, 1, kDayMs,
     "after the start signal: every link and stream between members is up"},
    {"sync_timeout_ms", &Limits::sync_timeout_ms, 1, kDayMs,
     "one collective, or one push and its pull (PyTorch DDP: timeout)"},
    {"heartbeat_ms", &Limits::heartbeat_ms, 1, 60'000, "pause between two signs of life"},
    {"lease_ms", &Limits::lease_ms, 1, kDayMs, "silence after which a member is lost"},
    {"stop_grace_ms", &Limits::stop_grace_ms, 1, 60'000, "from the stop signal to SIGKILL"},
    {"waiting_line_ms", &Limits::waiting_line_ms, 1, 60'000,
     "pause between two 'waiting for' lines"},
    {"message_bytes_max", &Limits::message_bytes_max, 1'024, int64_t{1} << 30,
     "largest message accepted from the network"},
    {"chunk_bytes", &Limits::chunk_bytes, 64, int64_t{64} << 20,
     "payload of one message between worker and server, and tile of a collective"},
    {"window_chunks", &Limits::window_chunks, 1, 1'024, "chunks a stream may have outstanding"},
    {"staged_bytes_max", &Limits::staged_bytes_max, 1, int64_t{1} << 40,
     "bytes of pushes one server may hold before they are applied"},
    {"snapshot_bytes_max", &Limits::snapshot_bytes_max, 0, int64_t{1} << 40,
     "largest parameter copy a probe writes; above it replicas are compared by hash alone"},
    {"settle_ms", &Limits::settle_ms, 1, 60'000,
     "after the first failure: wait for the others' reports, to tell the cause from its "
     "consequences"},
    {"answer_grace_ms", &Limits::answer_grace_ms, 1, 60'000,
     "after a failed exchange: wait for the peers' part of the explanation"},
    {"rebuild_timeout_ms", &Limits::rebuild_timeout_ms, 1, kDayMs,
     "after a loss: survivors have reported, a replacement has joined, the new group stands"},
    {"device_timeout_ms", &Limits::device_timeout_ms, 1, kDayMs,
     "all that a GPU has been asked to compute or copy is through"},
}};

}  // namespace lockstep
