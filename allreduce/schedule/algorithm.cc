#include "allreduce/schedule/algorithm.h"

namespace lockstep {

const char* NameOf(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kRing:
      return "ring";
    case Algorithm::kNaive:
      return "naive";
    case Algorithm::kTree:
      return "tree";
    case Algorithm::kPsExchange:
      return "ps_exchange";
  }
  return "unknown algorithm";
}

}  // namespace lockstep
