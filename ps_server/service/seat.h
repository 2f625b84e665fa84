// seat.h: what a server knows of one shard that it has a place for, beside the copy itself: how far
// each worker's push has come, what was sent already, which cuts were taken. Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "ps_server/core/replication.h"
#include "ps_server/core/rows.h"
#include "ps_server/service/payload.h"

namespace lockstep {

struct Seat {
  // Of one worker: the rows of a table that its newest pull by rows wants.
  struct RowPull {
    int64_t step = 0;
    TableRows table;
    std::vector<int64_t> rows;
    bool asked = false;  // all are named: its reply is them
  };

  int32_t shard = 0;
  ChainPlace place;
  bool joined = false;            // the successor that joins has caught up
  std::optional<ShardCopy> copy;  // once the layout is known
  WireVersions wire{Dtype::kF32};
  std::vector<int64_t> pushed_steps;     // [worker]: of its newest push
  std::vector<TableRows> tables;         // what the shard has of each
  std::map<int32_t, RowPull> row_pulls;  // by worker
  int64_t bytes = 0;                     // of one push, as it travels
  int64_t early_ns = 0;              // spent on the next version, while its pushes are not whole
  std::optional<int64_t> cut;        // step of the newest one
  int64_t state_bytes = 0;           // sent to the successor in this epoch
  int64_t confirmed = 0;             // of the copy, when last looked at
  int64_t unconfirmed_since_ns = 0;  // 0: every copy has what this one has
  int64_t acknowledged = 0;          // newest version whose reply was handed to the transport
};

}  // namespace lockstep
