#include "experiments/bench/bench.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allreduce/engine.h"
#include "base/median.h"
#include "base/status.h"
#include "experiments/analyse/statistics.h"
#include "experiments/bench/cell.h"
#include "experiments/bench/contestant.h"
#include "experiments/bench/job.h"
#include "experiments/bench/model.h"
#include "experiments/bench/roofs.h"
#include "experiments/bench/summary.h"
#include "experiments/bench/work_dir.h"

namespace lockstep {
namespace {

constexpr int kRoundsMin = 3;        // however short the time
constexpr int kOperationsMax = 200;  // of a turn
constexpr int kTryOperations = 3;    // of the first turn, which finds out how long one takes

// One algorithm of one job, at the present size.
struct Contestant {
  Job* job = nullptr;
  Cell cell;
  int operations = 1;       // of its turns
  int64_t expected_ns = 0;  // a turn
};

constexpr std::array kGpuPeers = {"nccl", "cuda"};

bool HasPeer(const BenchOptions& options, const char* peer) {
  return std::find(options.peers.begin(), options.peers.end(), peer) != options.peers.end();
}

// A job for each algorithm: the memory of one is not that of another, and NCCL reads its own from
// its process's environment.
void AddGpuJobs(const BenchOptions& options, int ranks, std::vector<JobSpec>* jobs) {
  JobSpec job;
  job.link = "gpu";
  job.ranks = ranks;
  if (HasPeer(options, "cuda")) {
    job.engine = "cuda";
    for (const std::string& algorithm : options.cuda_algorithms) {
      job.algorithms = {algorithm};
      jobs->push_back(job);
    }
  }
  if (HasPeer(options, "nccl")) {
    job.engine = "nccl";
    job.algorithms = {"default"};
    job.nccl_library = options.nccl_library;
    for (const std::string& algorithm : options.nccl_algorithms) {
      job.nccl_algorithm = algorithm;
      jobs->push_back(job);
    }
  }
}

std::vector<JobSpec> JobsOf(const BenchOptions& options, int ranks) {
  std::vector<JobSpec> jobs;
  const bool peers = ranks > 1;  // alone there is nothing to move
  for (const std::string& link : options.links) {
    JobSpec host;
    host.engine = "host";
    host.link = link;
    host.ranks = ranks;
    JobSpec servers = host;
    for (const std::string& name :
         link == "tcp" ? options.tcp_algorithms : options.shm_algorithms) {
      (name == NameOf(Algorithm::kPsExchange) ? servers : host).algorithms.push_back(name);
    }
    servers.servers = options.servers;  // ranks of their own, so a world of its own
    for (JobSpec spec : {host, servers}) {
      if (spec.algorithms.empty()) continue;
      for (const int channels : link == "tcp" ? options.channels : std::vector{1}) {
        spec.channels = channels;
        jobs.push_back(spec);
      }
    }
    JobSpec peer;
    peer.link = link;
    peer.ranks = ranks;
    if (peers && HasPeer(options, "mpi")) {
      peer.engine = "mpi";
      peer.algorithms = options.mpi_algorithms;
      for (const int connections : link == "tcp" ? options.mpi_connections : std::vector{0}) {
        peer.mpi_connections = connections;
        jobs.push_back(peer);
      }
    }
    if (peers && link == "tcp" && HasPeer(options, "gloo")) {
      peer.engine = "gloo";
      peer.algorithms = options.gloo_algorithms;
      peer.mpi_connections = 0;
      jobs.push_back(peer);
    }
    if (peers && link == "shm" && options.bytes.back() >= kFloorBytesMin) {
      peer.engine = kRoof;
      peer.algorithms = {kRoofUpdate};
      peer.mpi_connections = 0;
      jobs.push_back(peer);
    }
  }
  if (peers) AddGpuJobs(options, ranks, &jobs);
  return jobs;
}

// Buffers of all ranks that are alive at once, and about as much again inside the libraries.
absl::Status CheckMemory(const BenchOptions& options) {
  constexpr int64_t kProcessBytes = int64_t{32} << 20;
  int64_t needed = 0;
  for (const int ranks : options.ranks) {
    int64_t bytes = 0;
    for (const JobSpec& job : JobsOf(options, ranks)) {
      const auto buffers = static_cast<int64_t>(
          job.link == "shm" && job.engine == "host" ? job.algorithms.size() : 1);
      bytes += job.world_size() * (kProcessBytes + (buffers + 1) * options.bytes.back());
    }
    needed = std::max(needed, bytes);
  }
  const int64_t available = AvailableBytes();
  if (needed <= available) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("bench: needs up to ", needed >> 20, " MiB of memory, ", available >> 20,
                   " MiB are available; leave out large sizes, ranks, links or peers"));
}

class AllReduceBench {
 public:
  AllReduceBench(const BenchOptions& options, JobHost* host, const Progressing& progress)
      : options_(options), host_(*host), progress_(progress) {}

  BenchResult Run() {
    absl::Status status = RunAll();
    Summarise();
    return {std::move(file_), status.ok() ? left_out_ : std::move(status)};
  }

 private:
  absl::Status RunAll() {
    progress_("roofs: memory and loopback TCP");
    ASSIGN_OR_RETURN(*file_.mutable_roofs(), MeasureRoofs());
    for (const int ranks : options_.ranks) {
      std::vector<std::unique_ptr<Job>> jobs;
      const absl::Status status = RunRanks(ranks, &jobs);
      StopJobs(&jobs, &host_);
      RETURN_IF_ERROR(status);
    }
    return absl::OkStatus();
  }

  absl::Status RunRanks(int ranks, std::vector<std::unique_ptr<Job>>* jobs) {
    progress_(absl::StrCat(ranks, " ranks: starting"));
    for (const JobSpec& spec : JobsOf(options_, ranks)) {
      ASSIGN_OR_RETURN(std::unique_ptr<Job> job, Job::Start(spec, &host_));
      if (spec.engine == "host" && spec.servers == 0) {
        costs_[{spec.link, ranks}] = CostFrom(job->about(), ranks, file_.roofs());
      }
      jobs->push_back(std::move(job));
    }
    for (const int64_t bytes : options_.bytes) RETURN_IF_ERROR(RunSize(bytes, *jobs));
    return absl::OkStatus();
  }

  absl::Status RunSize(int64_t bytes, const std::vector<std::unique_ptr<Job>>& jobs) {
    std::vector<Contestant> contestants;
    for (const std::unique_ptr<Job>& job : jobs) {
      if (job->stopped() || (job->spec().engine == kRoof && bytes < kFloorBytesMin)) continue;
      for (const std::string& algorithm : job->spec().algorithms) {
        contestants.push_back(Enter(job.get(), algorithm, bytes));
      }
    }
    const std::string what = absl::StrCat(jobs[0]->spec().ranks, " ranks, ", BytesText(bytes));
    progress_(absl::StrCat(what, ": ", contestants.size(), " contestants"));
    for (Contestant& contestant : contestants) {
      RETURN_IF_ERROR(Judge(contestant, Try(&contestant)));
    }
    const int64_t end_ns =
        host_.clock->NowNs() +
        static_cast<int64_t>(options_.seconds * static_cast<double>(kNsPerSecond));
    for (int round = 0; round < options_.rounds; ++round) {
      if (round >= kRoundsMin && host_.clock->NowNs() > end_ns) break;
      std::vector<size_t> order(contestants.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::shuffle(order.begin(), order.end(), random_);
      for (const size_t i : order) {
        RETURN_IF_ERROR(Judge(contestants[i], Play(&contestants[i], /*last=*/false)));
      }
    }
    for (Contestant& contestant : contestants) {
      RETURN_IF_ERROR(Judge(contestant, Play(&contestant, /*last=*/true)));
    }
    for (Contestant& contestant : contestants) {
      if (!contestant.job->stopped()) cells_.push_back(std::move(contestant.cell));
    }
    return absl::OkStatus();
  }

  // The bench is about our ranks; a library that fails is left out of it, and that is said.
  absl::Status Judge(const Contestant& contestant, absl::Status status) {
    Job* const job = contestant.job;
    const std::string& engine = job->spec().engine;
    const bool library = EngineNamed(engine).has_value();
    if (status.ok() || !library || !host_.abort->status().ok()) return status;
    job->Stop();
    file_.add_notes(absl::StrCat("no rows from ", BytesText(contestant.cell.bytes),
                                 " on: ", std::string{status.message()}));
    progress_(file_.notes(file_.notes_size() - 1));
    left_out_.Update(std::move(status));
    return absl::OkStatus();
  }

  Contestant Enter(Job* job, const std::string& algorithm, int64_t bytes) const {
    Contestant contestant;
    contestant.job = job;
    Cell& cell = contestant.cell;
    cell.engine = job->spec().engine;
    cell.link = job->spec().link;
    cell.algorithm = algorithm;
    cell.setting = job->spec().Setting();
    cell.channels = job->spec().channels;
    cell.version = cell.engine == "host" ? "" : job->about();
    cell.ranks = job->spec().ranks;
    cell.servers = job->spec().servers;
    cell.bytes = bytes;
    cell.dtype = options_.dtype;
    cell.op = options_.op;
    return contestant;
  }

  Turn TurnOf(const Contestant& contestant) const {
    Turn turn;
    turn.algorithm = contestant.cell.algorithm;
    turn.count = contestant.cell.bytes / SizeOf(options_.dtype);
    turn.dtype = options_.dtype;
    turn.op = options_.op;
    turn.warmup = options_.warmup;
    turn.operations = contestant.operations;
    return turn;
  }

  // Checks every element, and finds out how many operations fill a turn. Its times do not count.
  absl::Status Try(Contestant* contestant) {
    if (contestant->job->stopped()) return absl::OkStatus();
    Turn turn = TurnOf(*contestant);
    turn.operations = kTryOperations;
    turn.check = true;
    ASSIGN_OR_RETURN(const std::vector<TurnReport> reports,
                     contestant->job->Run(turn, contestant->expected_ns));
    AddCheck(reports, &contestant->cell);
    const int64_t one_ns =
        std::max<int64_t>(1, static_cast<int64_t>(MedianOf(reports[0].times_ns)));
    contestant->operations = static_cast<int>(
        std::clamp<int64_t>(options_.turn_ms * kNsPerMs / one_ns, 1, kOperationsMax));
    contestant->expected_ns = one_ns * (contestant->operations + options_.warmup + 1);
    return absl::OkStatus();
  }

  // A timed turn; the last one is the check alone, so that no checking disturbs a timed round.
  absl::Status Play(Contestant* contestant, bool last) {
    if (contestant->job->stopped()) return absl::OkStatus();
    Turn turn = TurnOf(*contestant);
    turn.check = last;
    if (last) turn.operations = 1;
    ASSIGN_OR_RETURN(const std::vector<TurnReport> reports,
                     contestant->job->Run(turn, contestant->expected_ns));
    if (last) {
      AddCheck(reports, &contestant->cell);
    } else {
      AddRound(reports, &contestant->cell);
    }
    return absl::OkStatus();
  }

  void Summarise() {
    for (const Cell& cell : cells_) {
      if (cell.engine == kRoof) continue;
      BenchRow row = RowOf(cell);
      const auto cost = costs_.find({cell.link, cell.ranks});
      const bool schedule = cell.link == "tcp" || cell.algorithm != NameOf(Algorithm::kDirect);
      if (cell.engine == "host" && schedule && cost != costs_.end() && cost->second.has_value()) {
        AddModel(*cost->second, cell.channels, &row);
      }
      *file_.add_rows() = std::move(row);
    }
    const std::vector<BenchComparison> comparisons = Compare(cells_);
    for (const BenchComparison& comparison : comparisons) *file_.add_comparisons() = comparison;
    for (const BenchGeomean& geomean : Geomeans(comparisons)) *file_.add_geomeans() = geomean;
    for (const auto& [place, cost] : costs_) {
      for (const char* const small : {"tree", "recursive_doubling"}) {
        const CrossingQuery query{.link = place.first, .ranks = place.second, .small = small};
        const auto crossing = CrossingOf(query, cells_, cost);
        if (crossing.has_value()) *file_.add_crossings() = *crossing;
      }
    }
    if (const auto floor = FloorOf(cells_)) *file_.add_floors() = *floor;
  }

  const BenchOptions& options_;
  JobHost& host_;
  const Progressing& progress_;
  std::mt19937 random_{1};  // the same order in every run
  BenchFile file_;
  absl::Status left_out_;  // the first library that was
  std::vector<Cell> cells_;
  std::map<std::pair<std::string, int>, std::optional<CostModel>> costs_;  // [link, ranks]
};

// A GPU's libraries take part only where they were asked for: not without GPUs for all ranks.
absl::Status CheckGpuPeers(const std::string& program_dir, const BenchOptions& options) {
  const int most = *std::max_element(options.ranks.begin(), options.ranks.end());
  NcclPlace nccl;
  nccl.library = options.nccl_library;
  for (const char* const peer : kGpuPeers) {
    if (!HasPeer(options, peer)) continue;
    RETURN_IF_ERROR(Annotate(CheckEngine(*EngineNamed(peer), program_dir, nccl, most),
                             absl::StrCat("bench: --peers ", peer)));
  }
  return absl::OkStatus();
}

// Takes other peers out that are not here; says so.
std::vector<std::string> KeepInstalledPeers(const std::string& program_dir, BenchOptions* options) {
  std::vector<std::string> notes;
  std::erase_if(options->peers, [&](const std::string& peer) {
    if (std::find(kGpuPeers.begin(), kGpuPeers.end(), peer) != kGpuPeers.end()) return false;
    absl::Status here = CheckEngine(*EngineNamed(peer), program_dir);
    if (here.ok() && peer == "mpi" && access("/usr/bin/mpirun", X_OK) != 0) {
      here = absl::FailedPreconditionError("mpirun is not here; install openmpi-bin");
    }
    if (!here.ok()) {
      notes.push_back(absl::StrCat(peer, ": not installed, so no rows: ", here.message()));
    }
    return !here.ok();
  });
  return notes;
}

}  // namespace

absl::StatusOr<BenchResult> RunAllReduceBench(const BenchOptions& options,
                                              const std::string& program_dir, const Clock& clock,
                                              const Abort& abort, const Progressing& progress) {
  const std::string rank_program = absl::StrCat(program_dir, "/allreduce_rank");
  if (access(rank_program.c_str(), X_OK) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("bench: ", rank_program, " is not built; build the target allreduce_rank"));
  }
  RETURN_IF_ERROR(CheckGpuPeers(program_dir, options));
  BenchOptions kept = options;
  std::vector<std::string> notes = KeepInstalledPeers(program_dir, &kept);
  if (HasPeer(kept, "nccl") || HasPeer(kept, "cuda")) {
    notes.emplace_back(
        "nccl and cuda: data of the host, which go to a GPU's memory and back in each operation; "
        "`bench gpu` times data that stay there.");
  }
  RETURN_IF_ERROR(CheckMemory(kept));
  ASSIGN_OR_RETURN(std::string path, WorkDir::Make());
  const WorkDir work_dir(std::move(path));
  JobHost host;
  host.program_dir = program_dir;
  host.work_dir = work_dir.path();
  host.token = RandomToken();
  host.bytes_max = kept.bytes.back();
  host.limits.sync_timeout_ms = kept.timeout_ms;
  host.clock = &clock;
  host.abort = &abort;
  AllReduceBench bench(kept, &host, progress);
  BenchResult result = bench.Run();
  for (const std::string& note : notes) result.file.add_notes(note);
  return result;
}

}  // namespace lockstep
