#include "experiments/cli/describe.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep {

std::string DescribeModel(const ModelSpec& model) {
  return absl::StrCat("mlp ", absl::StrJoin(model.mlp().layers(), "-"));
}

std::string DescribeOptimizer(const Optimizer& optimizer) {
  return absl::StrCat("sgd, learning rate ", optimizer.sgd().learning_rate(), ", momentum ",
                      optimizer.sgd().momentum());
}

}  // namespace lockstep
