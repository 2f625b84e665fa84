// synthetic.h: records and run files whose every result is known in closed form.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "experiments/analyse/run_record.h"

namespace lockstep::synthetic {

inline constexpr int64_t kMs = 1'000'000;  // ns
inline constexpr int64_t kGradientBytes = 400'000;
inline constexpr int kSamples = 32;  // a worker and step

struct Shape {
  // none, ps_sync, ps_async, naive, ring, tree or ps_schedule
  std::string variant = "ring";
  int workers = 4;
  int servers = 0;
  int steps = 20;
  int block = 0;
  uint64_t seed = 1;
  int64_t period_ms = 10;  // from one step's start to the next one's
};

inline RunConfig Config(const Shape& shape) {
  RunConfig config;
  config.mutable_experiment()->mutable_train()->set_steps(shape.steps);
  Variant* variant = config.mutable_variant();
  variant->set_name(shape.variant);
  if (shape.variant == "none") variant->mutable_none();
  if (shape.variant == "ps_sync") variant->mutable_ps()->set_mode(Ps::SYNC);
  if (shape.variant == "ps_async") variant->mutable_ps()->set_mode(Ps::ASYNC);
  if (shape.variant == "ps_bounded") {
    variant->mutable_ps()->set_mode(Ps::BOUNDED);
    variant->mutable_ps()->set_staleness(1);
  }
  const std::map<std::string, AllReduceSync::Algorithm> algorithms = {
      {"naive", AllReduceSync::NAIVE},
      {"ring", AllReduceSync::RING},
      {"tree", AllReduceSync::TREE},
      {"ps_schedule", AllReduceSync::PS_EXCHANGE}};
  const auto algorithm = algorithms.find(shape.variant);
  if (algorithm != algorithms.end()) {
    variant->mutable_all_reduce()->set_algorithm(algorithm->second);
  }
  config.set_seed(shape.seed);
  config.set_block(shape.block);
  config.set_world_size(shape.workers);
  config.set_servers(shape.servers);
  return config;
}

inline TrafficCount Bytes(int64_t sent, int64_t received) {
  TrafficCount traffic;
  traffic.set_sent_bytes(sent);
  traffic.set_received_bytes(received);
  traffic.set_sent_messages(6);
  traffic.set_received_messages(7);
  return traffic;
}

inline Record StartedRecord(const Shape& shape, const std::string& role, int index) {
  Record record;
  Started* started = record.mutable_started();
  started->set_role(role);
  started->set_index(index);
  started->set_variant(shape.variant);
  started->set_block(shape.block);
  started->set_seed(shape.seed);
  started->set_gradient_bytes(kGradientBytes);
  started->set_buckets(1);
  return record;
}

inline Record SetUpRecord(int64_t sent) {
  Record record;
  *record.mutable_set_up()->mutable_traffic() = Bytes(sent, 0);
  return record;
}

inline Record EndedRecord(int64_t step, int64_t sent, int code = 0,
                          const std::string& message = "") {
  Record record;
  record.mutable_ended()->set_step(step);
  record.mutable_ended()->set_code(code);
  record.mutable_ended()->set_message(message);
  *record.mutable_ended()->mutable_traffic() = Bytes(sent, 0);
  return record;
}

// Neighbours of a rank in the heap-ordered binary tree.
inline int64_t Neighbours(int workers, int rank) {
  return (rank > 0 ? 1 : 0) + (2 * rank + 1 < workers ? 1 : 0) + (2 * rank + 2 < workers ? 1 : 0);
}

// Bytes one worker sends and receives in a step.
inline int64_t WorkerBytes(const Shape& shape, int rank) {
  if (shape.variant == "none") return 0;
  if (shape.servers > 0) return kGradientBytes;
  if (shape.variant == "naive") return (shape.workers - 1) * kGradientBytes;
  if (shape.variant == "tree") return Neighbours(shape.workers, rank) * kGradientBytes;
  return int64_t{2} * (shape.workers - 1) * kGradientBytes / shape.workers;
}

inline void AddSpan(int bucket, int64_t start_ns, int64_t end_ns, StepDone* done) {
  ExchangeSpan* span = done->add_exchange();
  span->set_bucket(bucket);
  span->set_start_ns(start_ns);
  span->set_end_ns(end_ns);
}

// Rank r starts step k at k periods + r ms, computes 4 ms and waits 5 ms for the exchange. So it
// waits n - 1 - r ms for the last rank's gradients; bucket 0 starts 1 ms before its own are all
// there. The loss of step k is k, plus 0.1 r, so that the mean over 4 ranks is k + 0.15.
inline Record StepRecord(const Shape& shape, int rank, int step) {
  Record record;
  StepDone* done = record.mutable_step();
  const int64_t start_ns = (step * shape.period_ms + rank) * kMs;
  done->set_step(step);
  done->set_start_ns(start_ns);
  done->set_compute_ns(4 * kMs);
  done->set_backward_end_ns(start_ns + 4 * kMs);
  done->set_sync_ns(5 * kMs);
  if (shape.variant != "none") {
    AddSpan(0, start_ns + 3 * kMs, start_ns + 5 * kMs, done);
    AddSpan(-1, start_ns + 5 * kMs, start_ns + 9 * kMs, done);
  }
  done->set_loss(step + 0.1 * rank);
  done->set_samples(kSamples);
  *done->mutable_traffic() = Bytes(WorkerBytes(shape, rank), WorkerBytes(shape, rank));
  return record;
}

inline Record ProbedRecord(int step, const std::string& hash, int64_t snapshot_offset = -1) {
  Record record;
  record.mutable_probed()->set_step(step);
  record.mutable_probed()->set_parameters_hash(hash);
  record.mutable_probed()->set_snapshot_offset(snapshot_offset);
  record.mutable_probed()->set_snapshot_bytes(8);
  return record;
}

// Probes at steps 10, 20, ...; every rank shows "h<step>", where ranks part "h<step>r<rank>".
inline std::string HashOf(const Shape& shape, int rank, int step) {
  const bool parts = shape.variant == "none" || shape.variant == "ps_async";
  return absl::StrCat("h", step, parts ? absl::StrCat("r", rank) : "");
}

// A ping-pong's result: round numbers, so that predictions can be checked by hand.
inline constexpr double kAlphaNs = 10'000;
inline constexpr double kBetaNsPerByte = 1;
inline constexpr double kGammaNsPerByte = 0.5;

inline std::vector<Record> WorkerRecords(const Shape& shape, int rank) {
  std::vector<Record> records = {StartedRecord(shape, "worker", rank), SetUpRecord(1'000)};
  if (rank == 0 && shape.variant != "none") {
    records[1].mutable_set_up()->mutable_link()->set_alpha_ns(kAlphaNs);
    records[1].mutable_set_up()->mutable_link()->set_beta_ns_per_byte(kBetaNsPerByte);
    records[1].mutable_set_up()->mutable_link()->set_gamma_ns_per_byte(kGammaNsPerByte);
    records[1].mutable_set_up()->set_addition_order(absl::StrCat("order of ", shape.variant));
  }
  for (int step = 1; step <= shape.steps; ++step) {
    records.push_back(StepRecord(shape, rank, step));
    if (step % 10 == 0 || step == shape.steps) {
      records.push_back(ProbedRecord(step, HashOf(shape, rank, step)));
    }
  }
  records.push_back(EndedRecord(shape.steps, 50));
  return records;
}

// One worker's update: read 1 ms after its last one, of the 4 ms between two of them.
inline Record AsyncRecord(const Shape& shape, int shard, int worker, int step) {
  Record record;
  Applied* applied = record.mutable_applied();
  applied->set_step(step);
  applied->set_shard(shard);
  applied->set_worker(worker);
  applied->set_update_staleness(shape.workers - 1 - worker % 2);
  applied->set_clock_staleness(worker % 2);
  applied->set_gap_ns(1 * kMs);
  applied->set_cycle_ns(4 * kMs);
  const int64_t bytes = kGradientBytes / shape.servers;
  *applied->mutable_traffic() = Bytes(bytes, bytes);
  return record;
}

// Parameter servers: one shard a server, each event counts its own step. Those of ps_schedule only
// sum, and record steps.
inline std::vector<Record> ServerRecords(const Shape& shape, int index) {
  const int64_t bytes = shape.workers * kGradientBytes / shape.servers;
  std::vector<Record> records = {StartedRecord(shape, "server", index), SetUpRecord(2'000)};
  for (int step = 1; step <= shape.steps; ++step) {
    Record record;
    if (shape.variant == "ps_async" || shape.variant == "ps_bounded") {
      for (int worker = 0; worker < shape.workers; ++worker) {
        records.push_back(AsyncRecord(shape, index, worker, step));
      }
      continue;
    }
    if (shape.variant == "ps_schedule") {
      record.mutable_step()->set_step(step);
      record.mutable_step()->set_start_ns(step * shape.period_ms * kMs);
      record.mutable_step()->set_sync_ns(9 * kMs);
      *record.mutable_step()->mutable_traffic() = Bytes(bytes, bytes);
    } else {
      record.mutable_applied()->set_step(step);
      *record.mutable_applied()->mutable_traffic() = Bytes(bytes, bytes);
    }
    records.push_back(record);
  }
  records.push_back(EndedRecord(shape.steps, 0));
  return records;
}

// All files of one run; tests damage them before reading.
using Files = std::map<std::pair<std::string, int>, std::vector<Record>>;
inline Files FilesOf(const Shape& shape) {
  Files files;
  for (int rank = 0; rank < shape.workers; ++rank) {
    files[{"worker", rank}] = WorkerRecords(shape, rank);
  }
  for (int i = 0; i < shape.servers; ++i) files[{"server", i}] = ServerRecords(shape, i);
  return files;
}

inline RecordReader ReaderOf(const Files& files) {
  return [files](const std::string& role, int index) -> absl::StatusOr<std::vector<Record>> {
    const auto found = files.find({role, index});
    if (found == files.end()) return absl::NotFoundError("no such file");
    return found->second;
  };
}

inline RunRecord RunOf(const Shape& shape, const Files& files) {
  return MergeRun(Config(shape), ReaderOf(files));
}

inline RunRecord Run(const Shape& shape) { return RunOf(shape, FilesOf(shape)); }

// The same after `change(&files)`.
template <typename Change>
RunRecord RunWith(const Shape& shape, const Change& change) {
  Files files = FilesOf(shape);
  change(&files);
  return RunOf(shape, files);
}

// change(step) for every StepDone of one worker.
template <typename Change>
void ForSteps(Files* files, int rank, const Change& change) {
  for (Record& record : (*files)[{"worker", rank}]) {
    if (record.has_step()) change(record.mutable_step());
  }
}

}  // namespace lockstep::synthetic
