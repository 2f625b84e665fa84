// table.h: a bench file as text for people, and as CSV. Every number's definition stands above the
// table. Pure.
#pragma once

#include <string>
#include <vector>

#include "proto/bench.pb.h"

namespace lockstep {

std::string BenchText(const BenchFile& file);
std::string BenchCsv(const BenchFile& file);

// How to read the numbers, and what was not controlled: the file's notes.
std::vector<std::string> StandingNotes(const BenchFile& file);

}  // namespace lockstep
