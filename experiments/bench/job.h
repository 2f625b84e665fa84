// job.h: the rank processes of one contestant of the bench, alive for all its turns and asleep in
// between: ours and Gloo's started by us, MPI's by mpirun. Errors name the job and the rank:
// Unavailable (it ended; how, and its last words), DeadlineExceeded (it did not answer), the ranks'
// own errors, the Abort's status; with BlamedBy. Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/transport/shm_bell.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/limits.h"
#include "experiments/bench/line_channel.h"
#include "experiments/bench/protocol.h"
#include "experiments/coordinator/processes.h"

namespace lockstep {

struct JobSpec {
  std::string program = "allreduce_rank";
  std::string engine;  // host, mpi, gloo, nccl, cuda, roof; of ps_rank: ps, grpc, tcp
  std::string link;    // tcp, shm; of nccl and cuda gpu; ps_rank asks for none
  int ranks = 1;       // that hold input
  int servers = 0;     // beyond those: ps_exchange
  int rows = 0;        // ps_rank: of a table, in a step; 0: it moves everything
  int row_floats = 0;
  int channels = 1;
  int mpi_connections = 0;     // 0: not over TCP
  std::string nccl_algorithm;  // NCCL_ALGO; empty: its own choice
  std::string nccl_library;
  std::vector<std::string> algorithms;  // contestants
  int world_size() const { return ranks + servers; }
  // Each rank on a core of its own, whoever starts it: mpirun does so by default, and ranks that
  // wake each other up onto one core stay there. Not those with threads.
  bool Bound() const {
    const bool threads = link.empty() || link == "gpu";
    return !threads && world_size() <= AllowedCores();
  }
  std::string Setting() const;  // "2 connections"; empty: nothing to say
  std::string Name() const;     // "mpi over tcp, 2 connections"
};

// What all jobs share, and outlives them.
struct JobHost {
  std::string program_dir;
  std::string work_dir;  // sockets and logs
  std::string token;
  int64_t bytes_max = 0;
  Limits limits;
  const Clock* clock = nullptr;
  const Abort* abort = nullptr;
  Processes processes = {};
  int started = 0;                       // processes so far: the name of the next
  std::map<int, MemberExit> exits = {};  // [process]
};

class Job {
 public:
  static absl::StatusOr<std::unique_ptr<Job>> Start(const JobSpec& spec, JobHost* host);

  // [rank]. Sleeps until all have reported.
  absl::StatusOr<std::vector<TurnReport>> Run(const Turn& turn, int64_t expected_ns);

  // Kills its processes, whatever they do; nothing runs afterwards.
  void Stop();
  bool stopped() const { return channels_.empty(); }

  const JobSpec& spec() const { return spec_; }
  const std::string& about() const { return about_; }  // rank 0's words after its set-up

 private:
  Job(const JobSpec& spec, JobHost* host) : spec_(spec), host_(*host) {}

  absl::Status Spawn(const std::string& control);
  std::vector<std::string> RankCommand(const std::string& control) const;
  absl::Status Welcome(const UniqueFd& listener);
  absl::Status SayToAll(const std::string& line);
  absl::StatusOr<std::vector<std::string>> HearAll(int64_t wait_ns);
  absl::Status Explain(const std::vector<absl::StatusOr<std::string>>& heard);
  std::string HowItEnded(int rank);
  int ProcessOf(int rank) const { return spec_.engine == "mpi" ? first_ : first_ + rank; }
  std::string LogPath(int process) const;

  const JobSpec spec_;
  JobHost& host_;
  int first_ = 0;                                       // process
  std::vector<std::unique_ptr<LineChannel>> channels_;  // [rank]
  std::string about_;
};

// Ends the jobs' processes: they end themselves once nobody talks to them; those that don't within
// limits.stop_grace_ms are stopped, then killed.
void StopJobs(std::vector<std::unique_ptr<Job>>* jobs, JobHost* host);

}  // namespace lockstep
