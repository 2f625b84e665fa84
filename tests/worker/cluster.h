// cluster.h: n workers as threads over in-process links, each with the whole AllReduceSynchronizer
// and StepExchange around a made-up gradient, and the servers of PS_EXCHANGE beside them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/communicator.h"
#include "allreduce/transport/in_process.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/numeric/random.h"
#include "base/status.h"
#include "worker/bucket/bucket.h"
#include "worker/sync/all_reduce.h"
#include "worker/sync/step_exchange.h"

namespace lockstep {

// Tensors of these sizes, one after the other, named t0, t1, ...
inline std::vector<NamedTensor> Tensors(const std::vector<int64_t>& counts) {
  std::vector<NamedTensor> tensors;
  int64_t offset = 0;
  for (const int64_t count : counts) {
    tensors.push_back(
        {.name = absl::StrCat("t", tensors.size()), .span = {.offset = offset, .count = count}});
    offset += count;
  }
  return tensors;
}

inline std::vector<Bucket> BucketsOf(const std::vector<NamedTensor>& tensors, int64_t cap_bytes) {
  std::vector<TensorSpan> spans;
  spans.reserve(tensors.size());
  for (const NamedTensor& tensor : tensors) spans.push_back(tensor.span);
  return MakeBuckets(spans, cap_bytes);
}

// The gradient of element `i` at `step` on `rank`, whose parameter there is `parameter`: of very
// different sizes, so that the order of additions shows.
inline float WildGradient(int64_t step, int rank, int64_t i, float parameter) {
  Random random(static_cast<uint64_t>(step),
                static_cast<uint64_t>(rank) << 32 | static_cast<uint64_t>(i));
  const float size = i % 3 == 0 ? 1000.0F : 1.0F;
  return (random.Uniform() - 0.5F) * size + 0.01F * parameter;
}

struct ClusterOptions {
  int n = 3;
  int servers = 0;
  Algorithm algorithm = Algorithm::kRing;
  int channels = 1;
  int64_t chunk_bytes = int64_t{1} << 20;
  int64_t cap_bytes = int64_t{1} << 20;
  std::vector<int64_t> tensors = {1500, 7, 0, 1030, 3};  // blocks, short ones, none
  int64_t steps = 3;
  bool overlap = false;
  float divisor = 1;
  bool exact = false;
  Dtype wire_dtype = Dtype::kF32;
  bool broadcast_start = true;
  std::function<float(int64_t step, int rank, int64_t i, float parameter)> gradient = WildGradient;
};

// What a worker ends with.
struct Trained {
  absl::Status status;
  std::vector<float> parameters;
  std::string addition_order;
  std::vector<CallSpan> spans;  // of the last step
};

// One rank's whole run. Ranks from n on only sum.
inline Trained RunRank(const ClusterOptions& options, std::unique_ptr<Link> link, int rank,
                       const Clock& clock, const Abort& abort) {
  const std::vector<NamedTensor> tensors = Tensors(options.tensors);
  const std::vector<Bucket> buckets = BucketsOf(tensors, options.cap_bytes);
  const int64_t count = tensors.back().span.offset + tensors.back().span.count;
  CommunicatorOptions communicator;
  communicator.algorithm = options.algorithm;
  communicator.channels = options.channels;
  communicator.servers = options.servers;
  communicator.limits.chunk_bytes = options.chunk_bytes;
  AllReduceSynchronizer sync(
      MakeHostCommunicator(std::move(link), clock, communicator),
      {.tensors = tensors,
       .buckets = buckets,
       .optimizer = {.learning_rate = 0.1F, .momentum = 0.9F, .divisor = options.divisor},
       .exact = options.exact,
       .wire_dtype = options.wire_dtype,
       .broadcast_start = options.broadcast_start});
  Trained result;
  result.parameters.assign(static_cast<size_t>(count), static_cast<float>(rank + 1));
  std::vector<float> gradients(static_cast<size_t>(count), 0.0F);
  const auto train = [&]() -> absl::Status {
    RETURN_IF_ERROR(sync.Begin(result.parameters).status());
    result.addition_order = sync.set_up().addition_order;
    StepExchange exchange(&sync,
                          {.overlap = options.overlap,
                           .buckets = static_cast<int>(buckets.size()),
                           .call_timeout_ms = 20'000},
                          clock, abort);
    for (int64_t step = 1; step <= options.steps; ++step) {
      for (const Bucket& bucket : buckets) {
        for (int64_t i = bucket.offset; rank < options.n && i < bucket.offset + bucket.count; ++i) {
          const auto at = static_cast<size_t>(i);
          gradients[at] = options.gradient(step, rank, i, result.parameters[at]);
        }
        RETURN_IF_ERROR(exchange.Ready(step, bucket, gradients));
      }
      RETURN_IF_ERROR(exchange.Finish(step, gradients, result.parameters));
      result.spans = exchange.TakeSpans();
    }
    return absl::OkStatus();
  };
  result.status = train();
  return result;
}

// [rank], the workers only.
inline std::vector<Trained> RunCluster(const ClusterOptions& options) {
  const MonotonicClock clock;
  const Abort abort;
  const Limits limits;
  const int ranks = options.n + options.servers;
  auto links =
      MakeInProcessLinks({.world_size = ranks, .channels = options.channels}, limits, clock, abort);
  std::vector<Trained> results(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  threads.reserve(results.size());
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto r = static_cast<size_t>(rank);
      results[r] = RunRank(options, std::move(links[r]), rank, clock, abort);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Trained& result : results) EXPECT_TRUE(result.status.ok()) << result.status;
  results.resize(static_cast<size_t>(options.n));
  return results;
}

// What all workers hold; a failure if they don't hold the same bits.
inline std::vector<float> SharedParameters(const std::vector<Trained>& workers) {
  for (const Trained& worker : workers) EXPECT_EQ(worker.parameters, workers[0].parameters);
  return workers[0].parameters;
}

}  // namespace lockstep
