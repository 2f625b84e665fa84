// schedule_source.h: the schedule that a command line names: an algorithm with its sizes, or a file
// in the text form (allreduce/schedule/text.h). Errors: InvalidArgument for what fits neither, with
// the algorithms that exist, and for a text that is wrong, with file:line:column; the generator's;
// errno's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "allreduce/schedule/generate.h"
#include "allreduce/schedule/text.h"

namespace lockstep {

struct ScheduleArguments {
  std::string what = {};  // an algorithm or a file
  std::optional<int32_t> ranks = {};
  std::optional<std::string> collective = {};
  std::optional<int32_t> root = {};
  std::optional<int32_t> channels = {};
  std::optional<int32_t> group_size = {};
  std::optional<int32_t> servers = {};
  std::optional<std::string> placement = {};
};

struct FoundSchedule {
  ScheduleText text;
  std::string file;           // empty: it was generated
  std::string Title() const;  // "ring all_reduce, 3 ranks, 3 chunks, 2 slots a connection"
  std::string name;           // of the algorithm, or the file
};

absl::StatusOr<FoundSchedule> FindSchedule(const ScheduleArguments& arguments);

// What the arguments say of a spec; its algorithm is left alone.
absl::StatusOr<ScheduleSpec> SpecOf(const ScheduleArguments& arguments);

std::string AlgorithmList();  // "ring, naive, tree, ..."

}  // namespace lockstep
