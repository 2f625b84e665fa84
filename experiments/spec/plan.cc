#include "experiments/spec/plan.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "experiments/spec/size.h"

namespace lockstep {
namespace {

constexpr uint64_t kOrderSeed = 0x4c6f636b73746570;  // "Lockstep"; any constant would do

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): the same numbers with every standard library.
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

// Fisher-Yates. The remainder favours small numbers by less than one in 2^50: no matter here.
template <typename T>
void Shuffle(SplitMix64* random, std::vector<T>* items) {
  for (size_t i = items->size(); i > 1; --i) {
    std::swap((*items)[i - 1], (*items)[static_cast<size_t>(random->Next() % i)]);
  }
}

}  // namespace

std::vector<RunConfig> PlanRuns(const Experiment& experiment) {
  CHECK_GT(experiment.workers_size(), 0);
  CHECK_GT(experiment.train().seeds_size(), 0);
  std::vector<RunConfig> block;
  for (const Variant& variant : experiment.variant()) {
    for (const int workers : experiment.workers()) {
      for (const uint64_t seed : experiment.train().seeds()) {
        RunConfig run;
        *run.mutable_experiment() = experiment;
        run.mutable_experiment()->clear_workers();
        run.mutable_experiment()->add_workers(workers);
        *run.mutable_variant() = variant;
        run.set_seed(seed);
        run.set_world_size(workers);
        run.set_servers(ServersOf(variant));
        block.push_back(std::move(run));
      }
    }
  }
  SplitMix64 random(kOrderSeed);
  std::vector<RunConfig> runs;
  for (int32_t i = 0; i < experiment.blocks(); ++i) {
    Shuffle(&random, &block);
    for (RunConfig& run : block) {
      run.set_block(i);
      runs.push_back(run);
    }
  }
  return runs;
}

std::string RunId(const Experiment& experiment, const Variant& variant, int workers) {
  if (experiment.workers_size() == 1) return variant.name();
  return absl::StrCat(variant.name(), "-n", workers);
}

}  // namespace lockstep
