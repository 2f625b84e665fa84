// rules.h: what the fields of an experiment may hold today, as tables that validate.cc reads.
// A field that has no row is refused with "not built yet": a new field of experiment.proto can't be
// ignored by mistake. The rows of limits { } are those of base/limits.h.
// Pure: no I/O, no threads.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "proto/experiment.pb.h"

namespace lockstep {

enum class RuleKind {
  kBlock,   // a message: its fields have their own rows
  kRange,   // a number within [min, max]
  kChoice,  // one of the values named in `built`
  kName,    // [a-z0-9][a-z0-9_.-]*, at most kNameLettersMax letters: it becomes part of file names
  kText,    // any text; conflicts.cc reads it
  kNotBuilt,  // refused; `built` says what there is instead
};

// Whether a list stands for several experiments.
enum class Sweep {
  kNo,        // one value, or a list that is one setting (seeds, layer widths)
  kNotBuilt,  // the format allows it; more than one value is refused
  kBuilt,
};

struct FieldRule {
  const char* path;  // without indices: "variant.ps.servers"
  RuleKind kind;
  double min = 0;
  double max = 0;
  const char* built = "";    // values, separated by spaces; for kNotBuilt a sentence
  const char* meaning = "";  // of the number: what its range bounds
  Sweep sweep = Sweep::kNo;
};

inline constexpr int kNameLettersMax = 64;
inline constexpr int kWorkersMax = 64;
inline constexpr int kServersMax = 64;
inline constexpr int kReplicasMax = 2;

// nullopt: the field is not built yet.
std::optional<FieldRule> FindRule(const std::string& pattern);

// A field that has to be written, with an example that is right.
struct RequiredField {
  const char* path;  // a top-level field or a field of a block below it, without indices
  const char* example;
};
inline constexpr RequiredField kRequiredFields[] = {
    {"name", "name: \"my-comparison\""},
    {"model", "model { mlp { layers: [64, 256, 10] } }"},
    {"data", "data { digits {} }"},
    {"train.global_batch", "train { global_batch: 128 }"},
    {"train.steps", "train { steps: 60 }"},
    {"workers", "workers: 4"},
    {"variant", "variant { name: \"ring\" all_reduce { algorithm: RING } }"},
};

// Values of lists that are not written; those of single fields stand in experiment.proto.
struct ListDefault {
  const char* path;  // without indices
  const char* value;
};
inline constexpr ListDefault kListDefaults[] = {{"wire_dtype", "F32"},
                                                {"bucket_cap_mb", "25"},
                                                {"train.seeds", "1"},
                                                {"variant.ps.servers", "1"},
                                                {"variant.all_reduce.servers", "1"}};

// A setting that changes nothing in this experiment is named in a note, not ignored in silence.
struct UnusedRule {
  const char* path;  // without indices
  bool (*unused)(const Experiment& experiment);
  const char* why;
};
std::span<const UnusedRule> UnusedRules();

}  // namespace lockstep
