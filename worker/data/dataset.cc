#include "worker/data/dataset.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "worker/data/digits.h"

namespace lockstep {

absl::StatusOr<Dataset> LoadDataset(const Data& spec) {
  switch (spec.kind_case()) {
    case Data::kDigits:
      return LoadDigits();
    case Data::kIdx:
      return absl::UnimplementedError("data.idx: not built yet; built: digits");
    case Data::kText:
      return absl::UnimplementedError("data.text: not built yet; built: digits");
    case Data::kSynthetic:
      return absl::UnimplementedError("data.synthetic: not built yet; built: digits");
    case Data::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("data: no kind given; built: digits");
}

void Gather(const Dataset& dataset, std::span<const int64_t> ids, Samples* samples) {
  samples->inputs.clear();
  samples->labels.clear();
  for (const int64_t id : ids) {
    CHECK_GE(id, 0);
    CHECK_LT(id, dataset.samples);
    const auto first = dataset.inputs.begin() + id * dataset.features;
    samples->inputs.insert(samples->inputs.end(), first, first + dataset.features);
    samples->labels.push_back(dataset.labels[static_cast<size_t>(id)]);
  }
}

}  // namespace lockstep
