// places.h: where this checkout and its built programs are. In one object file, so that the paths
// of a checkout make no other file's compilation differ (a compiler cache then serves every clone).
#pragma once

#include <string>

namespace lockstep {

std::string SourceDir();
std::string BinDir();

}  // namespace lockstep
