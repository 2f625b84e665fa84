#include "worker/model/factory.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/model/layer_stack.h"
#include "worker/model/layers.h"

namespace lockstep {
namespace {

// 1 GiB of floats in each of the worker's copies (parameters, gradients, optimizer, buckets in
// flight).
constexpr int64_t kParametersMax = int64_t{1} << 28;

absl::Status CheckWidths(const std::vector<int64_t>& widths, const DataDims& dims) {
  if (widths.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.mlp.layers has ", widths.size(),
                     " widths, expected at least 2: features and classes, [", dims.features, ", ",
                     dims.classes, "]"));
  }
  int64_t parameters = 0;
  for (size_t i = 0; i < widths.size(); ++i) {
    if (widths[i] < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("model.mlp.layers[", i, "] is ", widths[i], ", expected at least 1"));
    }
    if (i > 0) parameters += (widths[i - 1] + 1) * widths[i];
    if (parameters > kParametersMax) {
      return absl::InvalidArgumentError(absl::StrCat("model.mlp.layers up to [", i, "] makes ",
                                                     parameters, " parameters, at most ",
                                                     kParametersMax, " are allowed"));
    }
  }
  if (widths.front() != dims.features) {
    return absl::InvalidArgumentError(absl::StrCat("model.mlp.layers starts with ", widths.front(),
                                                   ", but a sample of the data has ", dims.features,
                                                   " features"));
  }
  if (widths.back() != dims.classes) {
    return absl::InvalidArgumentError(absl::StrCat("model.mlp.layers ends with ", widths.back(),
                                                   ", but the data has ", dims.classes,
                                                   " classes"));
  }
  return absl::OkStatus();
}

absl::Status NotBuilt(const std::string& kind) {
  return absl::UnimplementedError(absl::StrCat("model.", kind, ": not built yet; built: mlp"));
}

}  // namespace

template <typename T>
std::unique_ptr<BasicModel<T>> MakeMlp(const std::vector<int64_t>& widths,
                                       std::unique_ptr<Math<T>> math) {
  CHECK_GE(widths.size(), 2U);
  std::vector<std::unique_ptr<Layer<T>>> layers;
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    if (i > 0) layers.push_back(MakeRelu<T>(absl::StrCat("relu", i - 1), widths[i]));
    layers.push_back(MakeLinear<T>(absl::StrCat("linear", i), widths[i], widths[i + 1]));
  }
  return std::make_unique<LayerStack<T>>(absl::StrCat("mlp ", absl::StrJoin(widths, "-")),
                                         std::move(layers), std::move(math));
}

template std::unique_ptr<BasicModel<float>> MakeMlp(const std::vector<int64_t>&,
                                                    std::unique_ptr<Math<float>>);
template std::unique_ptr<BasicModel<double>> MakeMlp(const std::vector<int64_t>&,
                                                     std::unique_ptr<Math<double>>);

absl::StatusOr<std::unique_ptr<Model>> MakeModel(const ModelSpec& spec, const DataDims& dims,
                                                 std::unique_ptr<Math<float>> math) {
  switch (spec.kind_case()) {
    case ModelSpec::kMlp: {
      const std::vector<int64_t> widths(spec.mlp().layers().begin(), spec.mlp().layers().end());
      RETURN_IF_ERROR(CheckWidths(widths, dims));
      return MakeMlp<float>(widths, std::move(math));
    }
    case ModelSpec::kCnn:
      return NotBuilt("cnn");
    case ModelSpec::kTransformer:
      return NotBuilt("transformer");
    case ModelSpec::kLinear:
      return NotBuilt("linear");
    case ModelSpec::kReplay:
      return NotBuilt("replay");
    case ModelSpec::kTorchscript:
      return NotBuilt("torchscript");
    case ModelSpec::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("model: no kind given; built: mlp");
}

}  // namespace lockstep
