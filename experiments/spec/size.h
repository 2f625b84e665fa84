// size.h: how much of the machine an experiment asks for, before anything starts.
// Errors: none; an experiment that is not valid has no meaningful size. Pure: no I/O, no threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/experiment.pb.h"

namespace lockstep {

// Bytes of one element on the wire.
int64_t WireBytes(DtypeSpec dtype);

// The parameter tensors in the order of the worker's arena, named as the worker names them.
struct TensorSize {
  std::string name;  // "linear0.weight"
  int64_t elements = 0;
};
std::vector<TensorSize> TensorsOf(const Mlp& mlp);

// Weights and biases of all layers.
int64_t ParameterCount(const Mlp& mlp);

// As ps_server/core/partition.h cuts a model: a shard is made of whole blocks.
inline constexpr int64_t kShardBlockElements = 1'024;
// Blocks of all tensors, each counted from its tensor's start.
int64_t ShardBlockCount(const Mlp& mlp);

// Ranks that sum in PS_EXCHANGE, processes of their own or not.
int SummingRanksOf(const AllReduceSync& all_reduce);
// Processes beside the workers: parameter servers, or ranks that only sum.
int ServersOf(const Variant& variant);

struct VariantSize {  // of one variant with one number of workers
  std::string name;
  int workers = 0;
  int servers = 0;
  int processes = 0;  // workers and servers; the coordinator runs inside the command itself
  int ports = 0;      // listening at most: one a process and the coordinator's
};

struct ExperimentSize {
  std::vector<VariantSize> variants;  // each with every number of workers
  int processes_max = 0;              // of the largest variant; variants run one after another
  int ports_max = 0;
  int64_t runs = 0;  // blocks x variants x numbers of workers x seeds
  int64_t parameters = 0;
  int64_t gradient_bytes = 0;  // S: one gradient in wire_dtype
};

ExperimentSize EstimateSize(const Experiment& experiment);

}  // namespace lockstep
