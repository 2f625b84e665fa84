#include "experiments/analyse/server_load.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/clock.h"
#include "experiments/analyse/atomic_file.h"
#include "experiments/analyse/csv.h"

namespace lockstep {
namespace {

constexpr int64_t kSpanNsMax = kSecondsMax * kNsPerSecond - 1;

// The windows of one run.
class Windows {
 public:
  Windows(int64_t start_ns, int64_t window_ns)
      : start_ns_(start_ns), window_ns_(window_ns), last_(kSpanNsMax / window_ns) {}

  // The one that a moment is in.
  ServerLoad& At(int32_t server, int32_t shard, int64_t time_ns) {
    return Window(server, shard, Since(time_ns) / window_ns_);
  }
  // `amount` in equal parts to the time from `begin_ns` to `end_ns`.
  void Spread(int32_t server, int32_t shard, double ServerLoad::*part, double amount,
              int64_t begin_ns, int64_t end_ns) {
    const int64_t begin = Since(begin_ns);
    const int64_t end = std::max(Since(end_ns), begin);
    for (int64_t w = begin / window_ns_; w <= end / window_ns_; ++w) {
      const int64_t from = std::max(begin, w * window_ns_);
      const int64_t until = std::min(end, (w + 1) * window_ns_);
      const double share =
          end == begin ? 1 : static_cast<double>(until - from) / static_cast<double>(end - begin);
      Window(server, shard, w).*part += amount * share;
    }
  }
  // Somebody was there from `begin_ns` to `end_ns`.
  void Stay(int32_t server, int32_t shard, double ServerLoad::*part, int64_t begin_ns,
            int64_t end_ns) {
    Work(server, shard, part, Since(end_ns) - Since(begin_ns), begin_ns, end_ns);
  }
  // `work_ns` of the time from `begin_ns` to `end_ns`.
  void Work(int32_t server, int32_t shard, double ServerLoad::*part, int64_t work_ns,
            int64_t begin_ns, int64_t end_ns) {
    if (work_ns <= 0) return;
    const double windows = static_cast<double>(work_ns) / static_cast<double>(window_ns_);
    Spread(server, shard, part, windows, begin_ns, end_ns);
  }

  std::vector<ServerLoad> Take() {
    std::vector<ServerLoad> loads;
    for (auto& [place, windows] : windows_) {
      for (int64_t w = 0; w < count_; ++w) {
        ServerLoad load = windows.contains(w) ? windows.at(w) : ServerLoad();
        std::tie(load.server, load.shard) = place;
        load.window = w;
        if (load.pushes > 0) load.wait_ms /= static_cast<double>(load.pushes);
        loads.push_back(load);
      }
    }
    return loads;
  }

 private:
  // Times are read from files: none may make a year of windows.
  int64_t Since(int64_t time_ns) const {
    if (time_ns <= start_ns_) return 0;
    const uint64_t since_ns = static_cast<uint64_t>(time_ns) - static_cast<uint64_t>(start_ns_);
    return static_cast<int64_t>(std::min(since_ns, static_cast<uint64_t>(kSpanNsMax)));
  }
  ServerLoad& Window(int32_t server, int32_t shard, int64_t window) {
    const int64_t at = std::min(window, last_);
    count_ = std::max(count_, at + 1);
    return windows_[{server, shard}][at];
  }

  const int64_t start_ns_;
  const int64_t window_ns_;
  const int64_t last_;
  int64_t count_ = 0;
  std::map<std::pair<int32_t, int32_t>, std::map<int64_t, ServerLoad>> windows_;
};

int64_t AppliedNs(const Applied& applied) { return applied.apply_start_ns() + applied.apply_ns(); }

// When its last reply was taken by gRPC; it was recorded then.
int64_t OverNs(const Applied& applied) {
  int64_t over_ns = AppliedNs(applied);
  for (const PeerSpan& reply : applied.reply()) over_ns = std::max(over_ns, reply.end_ns());
  return over_ns;
}

// Each with an equal part, as a push is of the whole shard. Without spans: when it was applied.
template <typename Spans>
void SpreadBytes(int32_t server, const Applied& applied, double ServerLoad::*part, int64_t bytes,
                 const Spans& spans, Windows* windows) {
  const int64_t at_ns = applied.apply_start_ns();
  if (spans.empty()) {
    windows->Spread(server, applied.shard(), part, static_cast<double>(bytes), at_ns, at_ns);
  }
  for (const PeerSpan& span : spans) {
    windows->Spread(server, applied.shard(), part,
                    static_cast<double>(bytes) / static_cast<double>(spans.size()), span.start_ns(),
                    span.end_ns());
  }
}

void Add(int32_t server, const Applied& applied, int64_t cpu_since_ns, Windows* windows) {
  const int32_t shard = applied.shard();
  const int64_t begin_ns = applied.apply_start_ns();
  const int64_t end_ns = AppliedNs(applied);
  SpreadBytes(server, applied, &ServerLoad::in_bytes, applied.traffic().received_bytes(),
              applied.push(), windows);
  SpreadBytes(server, applied, &ServerLoad::out_bytes, applied.traffic().sent_bytes(),
              applied.reply(), windows);
  ServerLoad& load = windows->At(server, shard, begin_ns);
  int64_t first_ns = begin_ns;
  for (const PeerSpan& push : applied.push()) {
    first_ns = std::min(first_ns, push.start_ns());
    windows->Stay(server, shard, &ServerLoad::receiving, push.start_ns(), push.end_ns());
    windows->Stay(server, shard, &ServerLoad::waiting, push.end_ns(), begin_ns);
    load.wait_ms += std::max(0.0, static_cast<double>(begin_ns - push.end_ns()) / 1e6);
  }
  windows->Stay(server, shard, &ServerLoad::applying, begin_ns, end_ns);
  windows->Work(server, shard, &ServerLoad::applying, applied.early_ns(), first_ns, begin_ns);
  windows->Stay(server, shard, &ServerLoad::replicating, end_ns, end_ns + applied.replicate_ns());
  const TrafficCount& copies = applied.replication();
  windows->Spread(server, shard, &ServerLoad::replication_bytes,
                  static_cast<double>(copies.sent_bytes() + copies.received_bytes()), end_ns,
                  end_ns + applied.replicate_ns());
  for (const PeerSpan& reply : applied.reply()) {
    windows->Stay(server, shard, &ServerLoad::sending, reply.start_ns(), reply.end_ns());
  }
  windows->Spread(server, shard, &ServerLoad::cpu, static_cast<double>(applied.cpu_ns()),
                  cpu_since_ns, OverNs(applied));
  load.staged_bytes = std::max(load.staged_bytes, static_cast<double>(applied.staged_bytes()));
  load.updates += 1;
  load.pushes += applied.push_size();
  load.duplicates += applied.duplicates();
  load.rejected += applied.rejected_size();
}

constexpr char kHeader[] =
    "variant,workers,servers,block,seed,server,shard,second,updates,pushes,in_bytes,out_bytes,"
    "replication_bytes,receiving_pushes,waiting_pushes,wait_ms,applying_share,replicating_updates,"
    "sending_replies,cpu_processors,staged_bytes_max,duplicate_chunks,rejected_pushes\r\n";

void AppendRun(const RunRecord& run, std::string* csv) {
  const RunConfig& config = run.config;
  const std::string settings = absl::StrJoin(
      {CsvText(config.variant().name()), absl::StrCat(config.world_size()),
       absl::StrCat(config.servers()), absl::StrCat(config.block()), absl::StrCat(config.seed())},
      ",");
  for (const ServerLoad& load : ServerLoadOf(run, kNsPerSecond)) {
    absl::StrAppend(csv, settings, ",", load.server, ",", load.shard, ",", load.window, ",",
                    load.updates, ",", load.pushes);
    for (const double value : {load.in_bytes, load.out_bytes, load.replication_bytes,
                               load.receiving, load.waiting, load.wait_ms, load.applying,
                               load.replicating, load.sending, load.cpu, load.staged_bytes}) {
      absl::StrAppend(csv, ",", CsvNumber(value));
    }
    absl::StrAppend(csv, ",", load.duplicates, ",", load.rejected, "\r\n");
  }
}

// The shards of one server together.
void AddTo(const ServerLoad& load, ServerLoad* sum) {
  const auto pushes = static_cast<double>(sum->pushes + load.pushes);
  if (pushes > 0) {
    sum->wait_ms = (sum->wait_ms * static_cast<double>(sum->pushes) +
                    load.wait_ms * static_cast<double>(load.pushes)) /
                   pushes;
  }
  sum->pushes += load.pushes;
  sum->updates += load.updates;
  for (double ServerLoad::*part :
       {&ServerLoad::in_bytes, &ServerLoad::out_bytes, &ServerLoad::replication_bytes,
        &ServerLoad::receiving, &ServerLoad::waiting, &ServerLoad::applying,
        &ServerLoad::replicating, &ServerLoad::sending, &ServerLoad::cpu}) {
    sum->*part += load.*part;
  }
  sum->staged_bytes = std::max(sum->staged_bytes, load.staged_bytes);
}

void Put(const ServerLoad& load, ServerSeconds* seconds) {
  seconds->add_in_bytes(load.in_bytes);
  seconds->add_out_bytes(load.out_bytes + load.replication_bytes);
  seconds->add_receiving(load.receiving);
  seconds->add_waiting(load.waiting);
  seconds->add_wait_ms(load.wait_ms);
  seconds->add_applying(load.applying);
  seconds->add_sending(load.sending);
  seconds->add_cpu(load.cpu);
  seconds->add_staged_bytes(load.staged_bytes);
}

// From the run's first step to its last update.
int64_t SpanNsOf(const RunRecord& run) {
  const int64_t start_ns = FirstStartNs(run);
  int64_t last_ns = start_ns;
  for (const MemberRecord& server : run.servers) {
    for (const Applied& applied : server.applied) last_ns = std::max(last_ns, OverNs(applied));
  }
  const uint64_t span_ns = static_cast<uint64_t>(last_ns) - static_cast<uint64_t>(start_ns);
  return static_cast<int64_t>(std::min(span_ns, static_cast<uint64_t>(kSpanNsMax)));
}

}  // namespace

std::vector<ServerLoad> ServerLoadOf(const RunRecord& run, int64_t window_ns) {
  const int64_t start_ns = FirstStartNs(run);
  if (start_ns == INT64_MAX) return {};
  Windows windows(start_ns, window_ns);
  for (size_t s = 0; s < run.servers.size(); ++s) {
    int64_t since_ns = start_ns;
    for (const Applied& applied : run.servers[s].applied) {
      Add(static_cast<int32_t>(s), applied, since_ns, &windows);
      since_ns = std::max(since_ns, OverNs(applied));
    }
  }
  std::vector<ServerLoad> loads = windows.Take();
  for (ServerLoad& load : loads) load.cpu /= static_cast<double>(window_ns);
  return loads;
}

std::string ServersToCsv(const std::vector<RunRecord>& runs) {
  std::string csv = kHeader;
  for (const RunRecord& run : runs) AppendRun(run, &csv);
  return csv;
}

absl::Status WriteServersCsv(const std::string& path, const std::vector<RunRecord>& runs) {
  return WriteFileAtomically(path, ServersToCsv(runs));
}

void AggregateServerLoad(const std::vector<const RunRecord*>& runs, VariantResult* result) {
  if (runs.empty() || FirstStartNs(*runs[0]) == INT64_MAX) return;
  const RunRecord& run = *runs[0];
  const int64_t span_ns = SpanNsOf(run);
  const int64_t seconds = span_ns / kNsPerSecond + 1;
  const int64_t window_s = (seconds + kSecondsShown - 1) / kSecondsShown;
  // The run ends within the last window, whose means would seem to fall.
  const int64_t whole = std::max<int64_t>(span_ns / (window_s * kNsPerSecond), 1);
  std::map<int32_t, std::map<int64_t, ServerLoad>> servers;
  for (const ServerLoad& load : ServerLoadOf(run, window_s * kNsPerSecond)) {
    if (load.window < whole) AddTo(load, &servers[load.server][load.window]);
  }
  for (const auto& [server, windows] : servers) {
    ServerSeconds* const series = result->add_server_seconds();
    series->set_server(server);
    series->set_window_s(static_cast<double>(window_s));
    for (const auto& [window, load] : windows) Put(load, series);
  }
}

}  // namespace lockstep
