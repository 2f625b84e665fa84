// algorithm.h: the names of the ways to run a collective; each has a generator beside this file.
#pragma once

#include <cstdint>

namespace lockstep {

enum class Algorithm : uint8_t { kRing = 0, kNaive = 1, kTree = 2, kPsExchange = 3 };
const char* NameOf(Algorithm algorithm);  // "ring", "naive", "tree", "ps_exchange"

}  // namespace lockstep
