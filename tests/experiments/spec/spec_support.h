// spec_support.h: a spec that is right, to be made wrong by one line, and what is expected of the
// errors.
#pragma once

#include <gmock/gmock.h>

#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "experiments/spec/spec.h"
#include "tests/support/status_matchers.h"

namespace lockstep {

// Line 1 is `name`. Lines 1 to 9 as below.
inline std::string ValidSpec() {
  return R"(name: "test"
model { mlp { layers: [64, 32, 10] } }
data { digits {} }
train { global_batch: 128 steps: 60 }
workers: 4
variant { name: "none" none {} }
variant { name: "ps" ps { servers: 2 } }
variant { name: "ring" all_reduce {} }
)";
}

inline LoadedSpec Load(const std::string& text, const std::vector<std::string>& set = {}) {
  return LoadSpec({.display_name = "t", .text = text}, {.set = set});
}

inline std::string AllErrors(const LoadedSpec& spec) {
  const absl::Status status = spec.status();
  return {status.message().data(), status.message().size()};
}

struct ExpectedError {
  int line;
  std::vector<std::string> parts;  // all of them in the message
};

// Exactly these errors, in this order.
inline void ExpectErrors(const LoadedSpec& spec, const std::vector<ExpectedError>& expected) {
  ASSERT_EQ(spec.errors.size(), expected.size()) << AllErrors(spec);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(spec.errors[i].place.line, expected[i].line) << spec.errors[i].ToString();
    for (const std::string& part : expected[i].parts) {
      EXPECT_THAT(spec.errors[i].ToString(), testing::HasSubstr(part));
    }
  }
}

// One line of the valid spec replaced by another, and all errors that follow.
struct BadSpec {
  const char* name;
  const char* from;
  const char* to;
  std::vector<ExpectedError> errors;
};
inline void PrintTo(const BadSpec& bad, std::ostream* out) { *out << bad.name; }

// Loads the spec that `bad` describes and compares the errors.
inline void ExpectBad(const BadSpec& bad) {
  const std::string text = absl::StrReplaceAll(ValidSpec(), {{bad.from, bad.to}});
  ASSERT_NE(text, ValidSpec()) << "the case changes nothing";
  const LoadedSpec spec = Load(text);
  ExpectErrors(spec, bad.errors);
  EXPECT_THAT(spec.status(), StatusIs(absl::StatusCode::kInvalidArgument, "spec t: "));
}

}  // namespace lockstep
