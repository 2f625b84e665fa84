// findings.h: the heading of each picture. It claims what the data show where a threshold is
// passed, and is neutral otherwise; no claim is written by hand. Bytes, bits, replica state and
// staleness stand on any host, times only where the processors were not the limit. Pure.
#pragma once

#include <string>

#include "experiments/report/sections.h"

namespace lockstep {

std::string ScalingFinding(const PageView& view);
std::string BusiestFinding(const PageView& view);
std::string AnatomyFinding(const PageView& view);
std::string DivergenceFinding(const PageView& view);
std::string SameBitsFinding(const PageView& view);
std::string StalenessFinding(const PageView& view);
std::string LossFinding(const PageView& view);

}  // namespace lockstep
