// dataset.h: samples in memory: features as floats, one class label each.
// Errors: Unimplemented (a kind of data that is not built yet). Pure, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/experiment.pb.h"

namespace lockstep {

struct Dataset {
  std::string name;  // "digits"
  int64_t samples = 0;
  int64_t features = 0;
  int32_t classes = 0;
  std::vector<float> inputs = {};    // (samples, features)
  std::vector<int32_t> labels = {};  // (samples), 0 .. classes-1
};

// What the spec asks for. REQUIRES: experiments/spec has accepted it, or expect Unimplemented.
absl::StatusOr<Dataset> LoadDataset(const Data& spec);

// Copies of some samples, in the order of their ids: what one step reads.
struct Samples {
  std::vector<float> inputs;    // (rows, features)
  std::vector<int32_t> labels;  // (rows)
};

// REQUIRES: every id is in 0 .. samples-1. `samples` keeps its memory from call to call.
void Gather(const Dataset& dataset, std::span<const int64_t> ids, Samples* samples);

}  // namespace lockstep
