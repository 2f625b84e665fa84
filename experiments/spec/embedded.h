// embedded.h: the ready-made specs inside the program; CMake makes the table of experiments/specs/.
#pragma once

#include <cstddef>

namespace lockstep {

struct EmbeddedSpec {
  const char* name;
  const char* text;
};
extern const EmbeddedSpec kEmbeddedSpecs[];
extern const size_t kEmbeddedSpecCount;

}  // namespace lockstep
