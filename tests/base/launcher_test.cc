#include "base/launcher.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using Variables = std::map<std::string, std::string>;

struct Case {
  const char* name;
  RankFlags flags;
  Variables variables;
  int rank;
  int world_size;
  const char* text;
};

Environment EnvironmentOf(Variables variables) {
  return [variables](const char* name) -> std::optional<std::string> {
    const auto it = variables.find(name);
    if (it == variables.end()) return std::nullopt;
    return it->second;
  };
}

class Found : public ::testing::TestWithParam<Case> {};

TEST_P(Found, SaysWhereFrom) {
  const Case& want = GetParam();
  const auto found = FindRank(want.flags, EnvironmentOf(want.variables));
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->rank, want.rank);
  EXPECT_EQ(found->world_size, want.world_size);
  EXPECT_EQ(found->text, want.text);
}

INSTANTIATE_TEST_SUITE_P(
    All, Found,
    ::testing::Values(Case{"flags", {2, 4}, {}, 2, 4, "rank 2 of 4 from --rank and --world-size"},
                      Case{"rank_alone", {2, {}}, {}, 2, 0, "rank 2 from --rank"},
                      Case{"torchrun",
                           {},
                           {{"RANK", "1"}, {"WORLD_SIZE", "3"}},
                           1,
                           3,
                           "rank 1 of 3 from RANK and WORLD_SIZE"},
                      Case{"slurm",
                           {},
                           {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}},
                           0,
                           2,
                           "rank 0 of 2 from SLURM_PROCID and SLURM_NTASKS"},
                      Case{"open_mpi",
                           {},
                           {{"OMPI_COMM_WORLD_RANK", "7"}, {"OMPI_COMM_WORLD_SIZE", "8"}},
                           7,
                           8,
                           "rank 7 of 8 from OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE"},
                      Case{"two_that_agree",
                           {},
                           {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"SLURM_PROCID", "1"}},
                           1,
                           2,
                           "rank 1 of 2 from RANK and WORLD_SIZE"},
                      Case{"flag_over_variable",
                           {2, {}},
                           {{"RANK", "3"}, {"WORLD_SIZE", "4"}},
                           2,
                           4,
                           "rank 2 of 4 from --rank and WORLD_SIZE (RANK=3 overruled)"}),
    [](const auto& test) { return std::string(test.param.name); });

struct Refusal {
  const char* name;
  RankFlags flags;
  Variables variables;
  const char* text;
};

class Refused : public ::testing::TestWithParam<Refusal> {};

TEST_P(Refused, SaysWhatToDo) {
  EXPECT_THAT(FindRank(GetParam().flags, EnvironmentOf(GetParam().variables)),
              StatusIs(absl::StatusCode::kInvalidArgument, GetParam().text));
}

INSTANTIATE_TEST_SUITE_P(
    All, Refused,
    ::testing::Values(
        Refusal{"nothing",
                {},
                {},
                "pass --rank, or start under a launcher that sets one of OMPI_COMM_WORLD_RANK, "
                "RANK, SLURM_PROCID"},
        Refusal{"conflict",
                {},
                {{"RANK", "1"}, {"SLURM_PROCID", "2"}},
                "RANK=1 and SLURM_PROCID=2 disagree"},
        Refusal{"too_large", {4, 4}, {}, "0..world size - 1"},
        Refusal{"negative", {-1, 4}, {}, "0..world size - 1"},
        Refusal{"no_world", {0, 0}, {}, "0..world size - 1"},
        Refusal{"no_number", {}, {{"RANK", "one"}}, "RANK=one is not a number"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lockstep
