#include "experiments/spec/size.h"

#include <algorithm>

namespace lockstep {

int64_t ParameterCount(const Mlp& mlp) {
  int64_t parameters = 0;
  for (int i = 0; i + 1 < mlp.layers_size(); ++i) {
    parameters += (int64_t{mlp.layers(i)} + 1) * mlp.layers(i + 1);
  }
  return parameters;
}

int64_t ShardBlockCount(const Mlp& mlp) {
  const auto blocks = [](int64_t elements) {
    return (elements + kShardBlockElements - 1) / kShardBlockElements;
  };
  int64_t count = 0;
  for (int i = 0; i + 1 < mlp.layers_size(); ++i) {
    const int64_t out = mlp.layers(i + 1);
    count += blocks(mlp.layers(i) * out) + blocks(out);
  }
  return count;
}

ExperimentSize EstimateSize(const Experiment& experiment) {
  ExperimentSize size;
  const int workers = experiment.workers_size() > 0 ? experiment.workers(0) : 0;
  for (const Variant& variant : experiment.variant()) {
    VariantSize one{.name = variant.name(), .workers = workers};
    if (variant.has_ps()) {
      one.servers = variant.ps().servers_size() > 0 ? variant.ps().servers(0) : 1;
    }
    one.processes = one.workers + one.servers;
    one.ports = one.processes + 1;
    size.processes_max = std::max(size.processes_max, one.processes);
    size.ports_max = std::max(size.ports_max, one.ports);
    size.variants.push_back(one);
  }
  size.runs = int64_t{experiment.blocks()} * experiment.variant_size() *
              std::max(1, experiment.train().seeds_size());
  size.parameters = ParameterCount(experiment.model().mlp());
  size.gradient_bytes = size.parameters * int64_t{sizeof(float)};
  return size;
}

}  // namespace lockstep
