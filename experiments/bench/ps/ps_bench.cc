#include "experiments/bench/ps/ps_bench.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/byte_size.h"
#include "base/status.h"
#include "experiments/analyse/statistics.h"
#include "experiments/bench/job.h"
#include "experiments/bench/work_dir.h"
#include "ps_server/core/partition.h"

namespace lockstep {
namespace {

constexpr int kEndsMax = 16;         // workers, or servers
constexpr int kTryOperations = 3;    // of the first turn, which finds out how long one takes
constexpr int kOperationsMax = 500;  // of a turn
constexpr std::array<const char*, 3> kEngines = {"ps", "grpc", "tcp"};
constexpr size_t kOurs = 0;
constexpr size_t kGrpc = 1;
constexpr size_t kTcp = 2;

// One size, number of workers and of servers.
struct Place {
  int workers = 1;
  int servers = 1;
  int64_t bytes = 4;
  int rows = 0;  // of a table; 0: a step moves all bytes
  int row_floats = 0;
};

// What one contestant's rounds came to.
struct Contestant {
  std::unique_ptr<Job> job;
  int operations = 1;
  int64_t expected_ns = 0;
  std::vector<double> step_us;       // every one of every worker
  std::vector<double> goodput_gb_s;  // [round]: by the median step of its slowest worker
  double cpu_ns = 0;
  double steps = 0;                 // timed ones
  double wall_ns = 0;               // of the timed ones
  std::vector<double> server_rows;  // [server]: in a step, sum of rounds
  bool correct = true;
  std::string congestion;
};

// Payload pushed and pulled by all workers in a step.
double BytesOfStep(const Place& place) {
  const double one =
      place.rows > 0 ? 4.0 * place.rows * place.row_floats : static_cast<double>(place.bytes);
  return 2 * one * place.workers;
}

void AddRound(const Place& place, const std::vector<TurnReport>& reports, Contestant* contestant) {
  double slowest_us = 0;
  double wall_ns = 0;
  double rows = 0;
  contestant->server_rows.resize(static_cast<size_t>(place.servers));
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    contestant->cpu_ns += static_cast<double>(reports[rank].cpu_ns);
    if (rank >= static_cast<size_t>(place.workers)) {
      rows += reports[rank].rows;
      contestant->server_rows[rank - static_cast<size_t>(place.workers)] += reports[rank].rows;
      continue;
    }
    std::vector<double> us;
    double total_ns = 0;
    for (const int64_t time_ns : reports[rank].times_ns) {
      us.push_back(static_cast<double>(time_ns) / 1e3);
      total_ns += static_cast<double>(time_ns);
    }
    contestant->step_us.insert(contestant->step_us.end(), us.begin(), us.end());
    slowest_us = std::max(slowest_us, Quantile(us, 0.5));
    wall_ns = std::max(wall_ns, total_ns);
    contestant->correct = contestant->correct && reports[rank].correct;
    contestant->congestion = reports[rank].congestion;
  }
  // What the servers took must be what the workers pushed.
  const bool ours = contestant->job->spec().engine == kEngines[kOurs];
  if (ours && rows != static_cast<double>(place.rows) * place.workers) contestant->correct = false;
  contestant->goodput_gb_s.push_back(BytesOfStep(place) / (slowest_us * 1e3));
  contestant->steps += contestant->operations;
  contestant->wall_ns += wall_ns;
}

PsBenchAck AckOf(const Contestant& contestant) {
  PsBenchAck ack;
  ack.set_p50(Quantile(contestant.step_us, 0.5));
  ack.set_p99(Quantile(contestant.step_us, 0.99));
  return ack;
}

double CpuPerGb(const Place& place, const Contestant& contestant) {
  const double gb = BytesOfStep(place) * contestant.steps / 1e9;
  return contestant.cpu_ns / static_cast<double>(kNsPerSecond) / gb;
}

PsBenchRow RowOf(const Place& place, const std::array<Contestant, kEngines.size()>& contestants) {
  const Contestant& ours = contestants[kOurs];
  const Contestant& grpc = contestants[kGrpc];
  PsBenchRow row;
  row.set_workers(place.workers);
  row.set_servers(place.servers);
  row.set_bytes(static_cast<double>(place.bytes));
  row.set_goodput_gb_s(Quantile(ours.goodput_gb_s, 0.5));
  row.set_grpc_roof_gb_s(Quantile(grpc.goodput_gb_s, 0.5));
  row.set_tcp_roof_gb_s(Quantile(contestants[kTcp].goodput_gb_s, 0.5));
  row.set_cpu_s_per_gb(CpuPerGb(place, ours));
  row.set_grpc_cpu_s_per_gb(CpuPerGb(place, grpc));
  *row.mutable_ack_us() = AckOf(ours);
  *row.mutable_grpc_ack_us() = AckOf(grpc);
  std::vector<double> ratios;
  for (size_t i = 0; i < ours.goodput_gb_s.size(); ++i) {
    ratios.push_back(ours.goodput_gb_s[i] / grpc.goodput_gb_s[i]);
  }
  *row.mutable_ratio() = MedianInterval(ratios);
  row.set_busy_cores(ours.wall_ns > 0 ? ours.cpu_ns / ours.wall_ns : 0);
  row.set_congestion_control(ours.congestion);
  row.set_correct(ours.correct);
  if (place.rows == 0) return row;
  row.set_rows(place.rows);
  row.set_row_floats(place.row_floats);
  for (const double rows : ours.server_rows) {
    row.add_server_rows(rows / static_cast<double>(ours.goodput_gb_s.size()));
  }
  return row;
}

class PsBench {
 public:
  PsBench(const PsBenchOptions& options, JobHost* host,
          const std::function<void(const std::string&)>& progress)
      : options_(options), host_(*host), progress_(progress) {}

  absl::StatusOr<PsBenchFile> Run() {
    std::vector<PsBenchRow> rows;
    for (const int64_t bytes : options_.bytes) {
      for (const int servers : options_.servers) {
        const int64_t blocks = (bytes / 4 + kBlockElements - 1) / kBlockElements;
        if (blocks < servers) continue;  // none for one of them
        for (const int workers : options_.workers) {
          ASSIGN_OR_RETURN(PsBenchRow row,
                           Measure({workers, servers, bytes, options_.rows, options_.row_floats}));
          rows.push_back(std::move(row));
        }
      }
    }
    PsBenchFile file;
    for (const PsBenchRow& row : rows) *file.add_rows() = row;
    const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    for (PsBenchKnee& knee : KneesOf(rows, cores)) *file.add_knees() = std::move(knee);
    return file;
  }

 private:
  absl::StatusOr<PsBenchRow> Measure(const Place& place) {
    progress_(absl::StrCat(BytesText(place.bytes), ", ", place.workers, " workers, ", place.servers,
                           " servers"));
    std::array<Contestant, kEngines.size()> contestants;
    const absl::Status status = Play(place, &contestants);
    std::vector<std::unique_ptr<Job>> jobs;
    jobs.reserve(contestants.size());
    for (Contestant& contestant : contestants) jobs.push_back(std::move(contestant.job));
    StopJobs(&jobs, &host_);
    RETURN_IF_ERROR(status);
    return RowOf(place, contestants);
  }

  absl::Status Play(const Place& place, std::array<Contestant, kEngines.size()>* contestants) {
    host_.bytes_max = place.bytes;
    for (size_t i = 0; i < kEngines.size(); ++i) {
      JobSpec spec;
      spec.program = "ps_rank";
      spec.engine = kEngines[i];
      spec.ranks = place.workers;
      spec.servers = place.servers;
      spec.rows = place.rows;
      spec.row_floats = place.row_floats;
      ASSIGN_OR_RETURN((*contestants)[i].job, Job::Start(spec, &host_));
    }
    for (Contestant& contestant : *contestants) RETURN_IF_ERROR(Try(&contestant));
    for (int round = 0; round < options_.rounds; ++round) {
      std::array<size_t, kEngines.size()> order{};
      std::iota(order.begin(), order.end(), size_t{0});
      std::shuffle(order.begin(), order.end(), random_);
      for (const size_t i : order) {
        Contestant& contestant = (*contestants)[i];
        Turn turn;
        turn.operations = contestant.operations;
        turn.check = true;
        ASSIGN_OR_RETURN(const std::vector<TurnReport> reports,
                         contestant.job->Run(turn, contestant.expected_ns));
        AddRound(place, reports, &contestant);
      }
    }
    return absl::OkStatus();
  }

  // Finds out how many steps fill a turn. Its times do not count.
  absl::Status Try(Contestant* contestant) {
    Turn turn;
    turn.operations = kTryOperations;
    ASSIGN_OR_RETURN(const std::vector<TurnReport> reports, contestant->job->Run(turn, 0));
    const std::vector<int64_t>& times = reports[0].times_ns;
    const int64_t one_ns = std::max<int64_t>(1, *std::min_element(times.begin(), times.end()));
    contestant->operations = static_cast<int>(
        std::clamp<int64_t>(options_.turn_ms * kNsPerMs / one_ns, 1, kOperationsMax));
    contestant->expected_ns = one_ns * (contestant->operations + 1);
    return absl::OkStatus();
  }

  const PsBenchOptions& options_;
  JobHost& host_;
  const std::function<void(const std::string&)>& progress_;
  std::mt19937 random_{1};  // the same order in every run
};

absl::StatusOr<std::vector<int>> ReadCounts(const char* option, const std::string& text) {
  std::vector<int> counts;
  for (const absl::string_view word : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    int n = 0;
    if (!absl::SimpleAtoi(word, &n) || n < 1 || n > kEndsMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", option, ": '", word, "' must be a number of 1..", kEndsMax));
    }
    counts.push_back(n);
  }
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  if (counts.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", option, ": empty, e.g. --", option, " 1,2"));
  }
  return counts;
}

// A table has whole rows, at least as many as a step moves; each server gets some of them.
absl::Status CheckTables(PsBenchOptions* options) {
  if (options->row_floats < 1 || kBlockElements % options->row_floats != 0) {
    return absl::InvalidArgumentError(absl::StrCat("--row-floats: ", options->row_floats,
                                                   " must divide ", kBlockElements,
                                                   ", so that no row is cut by a server's border"));
  }
  const int64_t row_bytes = int64_t{4} * options->row_floats;
  for (int64_t& bytes : options->bytes) {
    bytes = bytes / row_bytes * row_bytes;
    if (bytes / row_bytes >= options->rows) continue;
    return absl::InvalidArgumentError(absl::StrCat("--rows: ", options->rows, " of a table of ",
                                                   bytes / row_bytes, " rows of ",
                                                   options->row_floats, " floats; lower it"));
  }
  if (options->rows >= options->servers.back()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--rows: ", options->rows, " for ", options->servers.back(), " servers"));
}

// Every process keeps a worker's bytes about four times: gradients, parameters, and what is
// between.
absl::Status CheckMemory(const PsBenchOptions& options) {
  constexpr int64_t kCopies = 4;
  const int64_t ends = int64_t{options.workers.back()} * 2 + options.servers.back();
  const int64_t needed =
      static_cast<int64_t>(kEngines.size()) * ends * kCopies * options.bytes.back();
  const int64_t available = AvailableBytes();
  if (needed <= available) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("bench: needs up to ", needed >> 20, " MiB of memory, ", available >> 20,
                   " MiB are available; leave out large sizes or workers"));
}

}  // namespace

absl::StatusOr<PsBenchOptions> ReadPsOptions(const PsBenchArguments& arguments) {
  PsBenchOptions options;
  if (arguments.rows < 0) return absl::InvalidArgumentError("--rows must be at least 0");
  const bool table = arguments.rows > 0;
  std::string text = arguments.sizes;
  if (text.empty()) text = table ? "1MiB,64MiB" : "4,4KiB,1MiB,64MiB,100MB";
  if (arguments.quick) text = table ? "1MiB" : "4,1MiB";
  absl::StatusOr<std::vector<int64_t>> sizes = ParseSizes(text);
  if (!sizes.ok()) return Annotate(sizes.status(), "--sizes");
  for (const int64_t bytes : *sizes) {
    const int64_t whole = std::max<int64_t>(4, bytes / 4 * 4);  // floats
    if (options.bytes.empty() || options.bytes.back() != whole) options.bytes.push_back(whole);
  }
  ASSIGN_OR_RETURN(options.workers,
                   ReadCounts("workers", arguments.quick ? "1,2" : arguments.workers));
  ASSIGN_OR_RETURN(options.servers,
                   ReadCounts("servers", arguments.quick ? "1" : arguments.servers));
  options.rows = arguments.rows;
  options.row_floats = arguments.row_floats;
  if (table) RETURN_IF_ERROR(CheckTables(&options));
  if (arguments.rounds < 1 || arguments.timeout_ms < 1) {
    return absl::InvalidArgumentError("--rounds and --timeout-ms must be at least 1");
  }
  options.rounds = arguments.quick ? std::min(3, arguments.rounds) : arguments.rounds;
  options.timeout_ms = arguments.timeout_ms;
  return options;
}

absl::StatusOr<PsBenchFile> RunPsBench(const PsBenchOptions& options,
                                       const std::string& program_dir, const Clock& clock,
                                       const Abort& abort,
                                       const std::function<void(const std::string&)>& progress) {
  const std::string program = absl::StrCat(program_dir, "/ps_rank");
  if (access(program.c_str(), X_OK) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("bench: ", program, " is not built; build the target ps_rank"));
  }
  RETURN_IF_ERROR(CheckMemory(options));
  ASSIGN_OR_RETURN(std::string path, WorkDir::Make());
  const WorkDir work_dir(std::move(path));
  JobHost host;
  host.program_dir = program_dir;
  host.work_dir = work_dir.path();
  host.token = RandomToken();
  host.limits.sync_timeout_ms = options.timeout_ms;
  host.clock = &clock;
  host.abort = &abort;
  return PsBench(options, &host, progress).Run();
}

std::vector<PsBenchKnee> KneesOf(const std::vector<PsBenchRow>& rows, int cores) {
  constexpr double kWorthIt = 1.1;  // a tenth more
  constexpr double kAllBusy = 0.9;  // of the cores
  std::vector<PsBenchKnee> knees;
  for (size_t i = 0; i < rows.size(); ++i) {
    const PsBenchRow& row = rows[i];
    const bool same = !knees.empty() && knees.back().servers() == row.servers() &&
                      knees.back().bytes() == row.bytes();
    if (!same) {
      knees.emplace_back();
      knees.back().set_servers(row.servers());
      knees.back().set_bytes(row.bytes());
      knees.back().set_workers(row.workers());
      knees.back().set_resource("not reached");
      continue;
    }
    const PsBenchRow& before = rows[i - 1];
    PsBenchKnee& knee = knees.back();
    if (row.goodput_gb_s() >= kWorthIt * before.goodput_gb_s()) {
      knee.set_workers(row.workers());
      knee.set_resource("not reached");
    } else if (knee.resource() == "not reached") {
      knee.set_resource(before.busy_cores() >= kAllBusy * cores ? "processors"
                                                                : "one server's stream");
    }
  }
  return knees;
}

}  // namespace lockstep
