// Three ranks, one thread each, sum their numbers: the engine as another project uses it.
#include <cstdio>
#include <thread>
#include <vector>

#include "allreduce/communicator.h"
#include "allreduce/transport/in_process.h"

int main() {
  constexpr int kRanks = 3;
  constexpr int kCount = 5;
  const lockstep::MonotonicClock clock;
  const lockstep::Abort abort;
  auto links =
      lockstep::MakeInProcessLinks({.world_size = kRanks}, lockstep::Limits(), clock, abort);
  std::vector<std::vector<float>> data;
  std::vector<absl::Status> outcomes(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    data.emplace_back(kCount, static_cast<float>(rank + 1));
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto r = static_cast<size_t>(rank);
      const auto group = lockstep::MakeHostCommunicator(std::move(links[r]), clock, {});
      outcomes[r] =
          group->AllReduce(data[r].data(), kCount, lockstep::Dtype::kF32, lockstep::ReduceOp::kSum);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t r = 0; r < kRanks; ++r) {
    if (!outcomes[r].ok()) {
      std::fprintf(stderr, "rank %zu: %s\n", r, outcomes[r].ToString().c_str());
      return 1;
    }
    std::printf("rank %zu:", r);
    for (const float value : data[r]) std::printf(" %g", value);
    std::printf("\n");
  }
}
