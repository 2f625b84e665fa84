// launcher.h: which rank of how many this process is, as flags or a launcher's variables say:
// torchrun (RANK, WORLD_SIZE), Slurm (SLURM_PROCID, SLURM_NTASKS), Open MPI (OMPI_COMM_WORLD_RANK,
// OMPI_COMM_WORLD_SIZE). Flags win over variables, and what they overrule is named; variables of
// two launchers that disagree are an error, since either may be the outer one. Pure: the
// environment is a function of the caller's.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace lockstep {

struct RankFlags {
  std::optional<int> rank;
  std::optional<int> world_size;
};

struct RankSource {
  int rank = 0;
  int world_size = 0;  // 0: nothing says it
  std::string text;    // "rank 2 of 4 from --rank and WORLD_SIZE (RANK=3 overruled)"
};

// The value of a variable; nullopt: not set.
using Environment = std::function<std::optional<std::string>(const char* name)>;

// InvalidArgument: nothing gives a rank (names every variable that could), a value is no number,
// two launchers disagree (both values), the rank is outside the world.
absl::StatusOr<RankSource> FindRank(const RankFlags& flags, const Environment& environment);

}  // namespace lockstep
