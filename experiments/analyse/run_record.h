// run_record.h: the record files of one run (one variant, seed and block) put together.
// Units: ns, bytes and steps as in proto/record.proto; steps are 1-based and contiguous from 1.
// Errors: none. A missing, truncated or foreign file is a sentence in `problems` and leaves the run
// incomplete; what the other members recorded stands. Where a group was rebuilt, what was undone is
// left out and a replacement's record follows its predecessor's.
// Threads: any; the functions are pure apart from what the reader does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/coordinator.pb.h"
#include "proto/record.pb.h"

namespace lockstep {

struct MemberRecord {
  std::string name;  // "worker 2"
  Started started;
  SetUp set_up;
  std::vector<StepDone> steps;      // workers, and servers that only sum; steps[i].step() == i + 1
  std::vector<Rebuilt> rebuilds;    // workers
  std::vector<int64_t> rebuilt_ns;  // [i of rebuilds]: when it went on
  std::vector<int64_t> redone_steps;  // [i of rebuilds]: finished ones that it took back
  std::vector<Probed> probes;         // workers
  std::vector<Applied>
      applied;  // parameter servers; what a restored snapshot took back is left out
  std::vector<Recovered> recoveries;  // parameter servers
  std::optional<Ended> ended;         // absent: killed, or the file is cut
  std::vector<int64_t> struck_ns;     // when planned faults killed or froze one of its processes
  bool struck = false;                // the last process was
  int false_failovers =
      0;  // processes that were given up and lived: nothing planned had struck them
};

struct RunRecord {
  RunConfig config;
  std::vector<MemberRecord> workers;  // [rank], config.world_size of them
  std::vector<MemberRecord> servers;  // [index], config.servers of them
  std::vector<std::string> problems;  // "worker 2: record stops after step 41"
  bool complete = false;              // every member ended well and every worker did every step
  // The run ended well, but with fewer workers than `config` says: not complete, since nothing that
  // is compared holds for it. `problems` names who was lost.
  bool shrank = false;

  int steps() const { return config.experiment().train().steps(); }
};

// The records of one process, e.g. ReadRecords(RecordPath(record_dir, role, index)); role is
// "worker" or "server".
using RecordReader =
    std::function<absl::StatusOr<std::vector<Record>>(const std::string& role, int index)>;

// Reads every declared member once, workers first.
RunRecord MergeRun(const RunConfig& config, const RecordReader& read);

// none, ps_sync, ps_async, ps_bounded, ps_k_of_n, all_reduce; empty for a way that is not built
// yet.
std::string ModeOf(const Variant& variant);
// One step's update holds the gradients of all workers: replicas are promised equal, nobody runs
// ahead, and speeds compare.
bool IsSynchronous(const std::string& mode);
// Each update is one worker's push alone: ps_async, ps_bounded.
bool AppliesAlone(const std::string& mode);
// naive, ring, tree, ps_exchange; empty for ways without an algorithm.
std::string AlgorithmOf(const Variant& variant);
// ps_async, ps_bounded: "r/n" or "r", the learning rate that one worker's update is applied with;
// else empty.
std::string RateOf(const Variant& variant);
// "Ring all-reduce", "Parameter server, async, 2 servers, rate r/n", "No synchronisation".
std::string LabelOf(const Variant& variant, int servers);

// The first of the spec's seeds, whatever the order of the runs; the run's own where it lists none.
uint64_t FirstSeed(const RunRecord& run);

// Steps left out of every time, while caches and connections warm up: 5, and at most a tenth of the
// run.
int WarmupSteps(int steps);

// This worker, or the process in its place, took the state after the step from a peer when a group
// was rebuilt: the step has a duration, but neither loss nor samples nor traffic of its own.
bool IsTakenOver(const StepDone& step);

// Steps that every worker finished.
size_t CommonSteps(const RunRecord& run);
int64_t EndNs(const StepDone& step);
// Of the earliest first step; INT64_MAX when there is none.
int64_t FirstStartNs(const RunRecord& run);

}  // namespace lockstep
