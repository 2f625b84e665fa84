// tier.h: sources that both tiers compile ask here which of their cases to run.
#pragma once

namespace lockstep {

#ifdef LOCKSTEP_FULL_TIER
inline constexpr bool kFullTier = true;
#else
inline constexpr bool kFullTier = false;
#endif

}  // namespace lockstep
