// tier.h: sources that both tiers compile ask here how much of their work to do.
#pragma once

namespace lockstep {

#ifdef LOCKSTEP_FULL_TIER
inline constexpr bool kFullTier = true;
#else
inline constexpr bool kFullTier = false;
#endif

}  // namespace lockstep
