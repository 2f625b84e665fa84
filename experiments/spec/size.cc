#include "experiments/spec/size.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace lockstep {

int64_t WireBytes(DtypeSpec dtype) {
  switch (dtype) {
    case U8:
      return 1;
    case F16:
    case BF16:
      return 2;
    case F32:
    case I32:
      return 4;
    case F64:
    case I64:
      return 8;
  }
  return 0;  // no such type: never
}

std::vector<TensorSize> TensorsOf(const Mlp& mlp) {
  std::vector<TensorSize> tensors;
  for (int i = 0; i + 1 < mlp.layers_size(); ++i) {
    const int64_t out = mlp.layers(i + 1);
    tensors.push_back({absl::StrCat("linear", i, ".weight"), mlp.layers(i) * out});
    tensors.push_back({absl::StrCat("linear", i, ".bias"), out});
  }
  return tensors;
}

int64_t ParameterCount(const Mlp& mlp) {
  int64_t parameters = 0;
  for (const TensorSize& tensor : TensorsOf(mlp)) parameters += tensor.elements;
  return parameters;
}

int64_t ShardBlockCount(const Mlp& mlp) {
  int64_t count = 0;
  for (const TensorSize& tensor : TensorsOf(mlp)) {
    count += (tensor.elements + kShardBlockElements - 1) / kShardBlockElements;
  }
  return count;
}

int SummingRanksOf(const AllReduceSync& all_reduce) {
  return all_reduce.servers().empty() ? 1 : all_reduce.servers(0);
}

int ServersOf(const Variant& variant) {
  if (variant.has_ps()) return variant.ps().servers().empty() ? 1 : variant.ps().servers(0);
  const AllReduceSync& all_reduce = variant.all_reduce();
  const bool apart = all_reduce.algorithm() == AllReduceSync::PS_EXCHANGE &&
                     all_reduce.placement() != AllReduceSync::COLOCATED;
  return apart ? SummingRanksOf(all_reduce) : 0;
}

ExperimentSize EstimateSize(const Experiment& experiment) {
  ExperimentSize size;
  for (const Variant& variant : experiment.variant()) {
    for (const int workers : experiment.workers()) {
      VariantSize one{.name = variant.name(), .workers = workers, .servers = ServersOf(variant)};
      one.processes = one.workers + one.servers;
      one.ports = one.processes + 1;
      size.processes_max = std::max(size.processes_max, one.processes);
      size.ports_max = std::max(size.ports_max, one.ports);
      size.variants.push_back(one);
    }
  }
  size.runs = int64_t{experiment.blocks()} * experiment.variant_size() *
              std::max(1, experiment.workers_size()) * std::max(1, experiment.train().seeds_size());
  size.parameters = ParameterCount(experiment.model().mlp());
  const DtypeSpec dtype = experiment.wire_dtype_size() > 0 ? experiment.wire_dtype(0) : F32;
  size.gradient_bytes = size.parameters * WireBytes(dtype);
  return size;
}

}  // namespace lockstep
