// tier.h: sources that several tiers compile ask here how much of their work to do.
#pragma once

namespace lockstep {

#ifdef LOCKSTEP_FULL_TIER
inline constexpr bool kFullTier = true;
#else
inline constexpr bool kFullTier = false;
#endif
#ifdef LOCKSTEP_LONG_TIER
inline constexpr bool kLongTier = true;
#else
inline constexpr bool kLongTier = false;
#endif

}  // namespace lockstep
