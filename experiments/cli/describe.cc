#include "experiments/cli/describe.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep {

std::string DescribeModel(const ModelSpec& model) {
  return absl::StrCat("mlp ", absl::StrJoin(model.mlp().layers(), "-"));
}

std::string DescribeOptimizer(const Optimizer& optimizer) {
  if (optimizer.has_adam() || optimizer.has_adamw()) {
    const Adam& adam = optimizer.has_adamw() ? optimizer.adamw() : optimizer.adam();
    return absl::StrCat(optimizer.has_adamw() ? "adamw" : "adam", ", learning rate ",
                        adam.learning_rate(), ", betas ", adam.beta1(), " and ", adam.beta2());
  }
  return absl::StrCat("sgd, learning rate ", optimizer.sgd().learning_rate(), ", momentum ",
                      optimizer.sgd().momentum());
}

}  // namespace lockstep
