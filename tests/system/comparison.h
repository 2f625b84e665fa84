// comparison.h: a whole comparison as a user runs it, and what it left behind.
// Threads: one.
#pragma once

#include <string>
#include <vector>

#include "proto/record.pb.h"
#include "tests/system/command.h"

namespace lockstep {

struct Compared {
  CommandResult result;
  RunFile run;  // run.json; a test failure where there is none
};

// Runs `lockstep compare` into `dir`/out. A spec's text goes through SpecFile.
Compared Compare(const TemporaryDir& dir, std::vector<std::string> arguments,
                 double timeout_s = 60);

// Writes `text` below `dir` and returns the path, to be given to compare.
std::string SpecFile(const TemporaryDir& dir, const std::string& text);

// The result of this id; a test failure where there is none.
const VariantResult& VariantOf(const RunFile& run, const std::string& id);

}  // namespace lockstep
