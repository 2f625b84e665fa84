#include "allreduce/schedule/algorithm.h"

namespace lockstep {

const char* NameOf(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kRing:
      return "ring";
  }
  return "unknown algorithm";
}

}  // namespace lockstep
