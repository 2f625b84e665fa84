// override.h: `--set path=value`: the value is text format and replaces what was there.
// The path is dotted; elements of a list have an index, variants also a name: train.steps=60,
// variant[1].ps.servers=3, variant[ring].all_reduce.channels=2, model='mlp { layers: [64, 10] }'.
// Quotes around one text and braces around one block may be left out.
// Errors: all of them, naming the option's text and the character. Pure: no I/O, no threads.
#pragma once

#include <string>
#include <vector>

#include "experiments/spec/place.h"
#include "proto/experiment.pb.h"

namespace lockstep {

struct Override {
  std::string assignment;  // path=value
  std::string shown;       // how errors call the option: "--set workers=4", "--blocks 5"
  int hidden_characters =
      0;  // of the assignment that the user did not type: "blocks=" of --blocks 5
};

void ApplyOverride(const Override& override_, Experiment* experiment, Places* places,
                   std::vector<SpecError>* errors);

}  // namespace lockstep
