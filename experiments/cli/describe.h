// describe.h: parts of a spec in a few words, for tables and reports. Pure.
#pragma once

#include <string>

#include "proto/experiment.pb.h"

namespace lockstep {

std::string DescribeModel(const ModelSpec& model);  // "mlp 64-256-256-10"
std::string DescribeOptimizer(
    const Optimizer& optimizer);  // "sgd, learning rate 0.1, momentum 0.9"

}  // namespace lockstep
