// only.h: --only: leaves the named variants of an experiment, as if the others had not been
// written. Errors: an unknown name, with the known ones. Pure: no I/O, no threads.
#pragma once

#include <string>
#include <vector>

#include "experiments/spec/place.h"
#include "proto/experiment.pb.h"

namespace lockstep {

// No names: leaves all.
void KeepOnly(const std::vector<std::string>& names, Experiment* experiment, Places* places,
              std::vector<SpecError>* errors);

}  // namespace lockstep
