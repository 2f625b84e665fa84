// factory.h: the model that a spec asks for, fitted to its data.
// Errors: InvalidArgument (widths that don't fit each other or the data, with both numbers),
// Unimplemented (a kind of model that is not built yet). Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/experiment.pb.h"
#include "worker/model/math.h"
#include "worker/model/model.h"

namespace lockstep {

// What a model must fit.
struct DataDims {
  int64_t features = 0;
  int64_t classes = 0;
};

// Parameters are zero until Init.
absl::StatusOr<std::unique_ptr<Model>> MakeModel(const ModelSpec& spec, const DataDims& dims,
                                                 std::unique_ptr<Math<float>> math);

// Linear layers with ReLU between them. REQUIRES: at least two widths, each > 0. T: float, double.
template <typename T>
std::unique_ptr<BasicModel<T>> MakeMlp(const std::vector<int64_t>& widths,
                                       std::unique_ptr<Math<T>> math);

}  // namespace lockstep
