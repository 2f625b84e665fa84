// schedule_cases.h: one schedule of each generator with what its header promises of it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <numeric>
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/barrier.h"
#include "allreduce/schedule/direct.h"
#include "allreduce/schedule/double_tree.h"
#include "allreduce/schedule/halving_doubling.h"
#include "allreduce/schedule/hierarchical.h"
#include "allreduce/schedule/naive.h"
#include "allreduce/schedule/ps_exchange.h"
#include "allreduce/schedule/recursive_doubling.h"
#include "allreduce/schedule/ring.h"
#include "allreduce/schedule/rooted.h"
#include "allreduce/schedule/star.h"
#include "allreduce/schedule/tree.h"
#include "tests/allreduce/schedule_walk.h"

namespace lockstep {

struct ScheduleCase {
  std::string name;
  std::function<Schedule()> make;
  int32_t chunks = 0;
  int32_t slots_needed = 1;
  int64_t depth = 0;  // longest chain of messages of which each depends on the one before
  std::function<Share(int32_t rank)> share;
  Collective collective = Collective::kAllReduce;
  int32_t root = 0;
};
inline void PrintTo(const ScheduleCase& param, std::ostream* out) { *out << param.name; }

inline int32_t Log2Floor(int32_t n) {
  return static_cast<int32_t>(std::bit_width(static_cast<uint32_t>(n))) - 1;
}
inline int32_t Log2Ceil(int32_t n) {
  return static_cast<int32_t>(std::bit_width(static_cast<uint32_t>(n - 1)));
}

inline std::function<Share(int32_t)> Alike(int64_t chunks) {
  return [=](int32_t) { return Share{chunks, chunks}; };
}

// "reduce_scatter" -> "ReduceScatter" would need code; test names may hold underscores of their
// own.
inline std::string SpecName(const char* name, int32_t n, int32_t channels) {
  return absl::StrCat(name, n, "Channels", channels);
}

inline ScheduleCase RingCase(const RingSpec& spec) {
  const int64_t n = spec.world_size;
  const bool both = spec.collective == Collective::kAllReduce;
  const int64_t hops = (both ? 2 : 1) * (n - 1);
  return {.name = SpecName(absl::StrCat("Ring_", NameOf(spec.collective), "_").c_str(),
                           spec.world_size, spec.channels),
          .make = [=] { return *MakeRing(spec); },
          .chunks = spec.world_size * spec.channels,
          .slots_needed = n > (both ? 1 : 2) ? 2 : 1,
          .depth = hops,
          .share = Alike(hops * spec.channels),
          .collective = spec.collective};
}

inline ScheduleCase NaiveCase(const NaiveSpec& spec) {
  const int64_t n = spec.world_size;
  return {.name = SpecName("Naive", spec.world_size, spec.channels),
          .make = [=] { return *MakeNaive(spec); },
          .chunks = spec.channels,
          .depth = n > 1 ? 1 : 0,
          .share = Alike((n - 1) * spec.channels)};
}

inline ScheduleCase StarCase(const StarSpec& spec) {
  const int64_t n = spec.world_size;
  return {.name = SpecName("Star", spec.world_size, spec.channels),
          .make = [=] { return *MakeStar(spec); },
          .chunks = spec.channels,
          .depth = n > 1 ? 2 : 0,
          .share =
              [=](int32_t rank) {
                const int64_t moved = (rank == 0 ? n - 1 : 1) * spec.channels;
                return Share{moved, moved};
              }};
}

inline ScheduleCase TreeCase(const TreeSpec& spec) {
  const int32_t n = spec.world_size;
  const int32_t chunks = spec.channels * spec.chunks_per_channel;
  const auto share = [=](int32_t rank) {
    const int64_t children = std::clamp(n - 1 - 2 * rank, 0, 2);
    const int64_t parents = rank == 0 ? 0 : 1;
    return Share{(children + parents) * chunks, (children + parents) * chunks};
  };
  return {
      .name = absl::StrCat(SpecName("Tree", n, spec.channels), "Chunks", spec.chunks_per_channel),
      .make = [=] { return *MakeTree(spec); },
      .chunks = chunks,
      .depth = 2 * Log2Floor(n),
      .share = share};
}

// Which ranks are inner: schedule_test.cc. Parity gives the rest: odd positions of n are inner,
// with two children but for the last of an even n.
inline ScheduleCase DoubleTreeCase(const DoubleTreeSpec& spec) {
  const int32_t n = spec.world_size;
  const int32_t top = n / 2 / 2 * 2 + 1;  // position of the root
  const auto degree = [=](int32_t position) -> int64_t {
    if (n == 1) return 0;
    const int64_t children = position % 2 == 0 ? 0 : position == n - 1 ? 1 : 2;
    return children + (position == top ? 0 : 1);
  };
  const auto share = [=](int32_t rank) {
    const int32_t in_b = n % 2 == 0 ? n - 1 - rank : (rank + n - 1) % n;
    const int64_t edges = degree(rank) + degree(in_b);
    return Share{edges * spec.channels * spec.chunks_per_tree,
                 edges * spec.channels * spec.chunks_per_tree};
  };
  return {.name = absl::StrCat(SpecName("DoubleTree", n, spec.channels), "Chunks",
                               spec.chunks_per_tree),
          .make = [=] { return *MakeDoubleTree(spec); },
          .chunks = 2 * spec.channels * spec.chunks_per_tree,
          .depth = 2 * Log2Floor(n),
          .share = share};
}

inline ScheduleCase RecursiveDoublingCase(const RecursiveDoublingSpec& spec) {
  const int32_t log = Log2Floor(spec.world_size);
  const int32_t folded = spec.world_size - (1 << log);
  return {.name = SpecName("RecursiveDoubling", spec.world_size, spec.channels),
          .make = [=] { return *MakeRecursiveDoubling(spec); },
          .chunks = spec.channels,
          .depth = log + (folded == 0               ? 0
                          : folded > (1 << log) / 2 ? 2
                                                    : 1),
          .share =
              [=](int32_t rank) {
                int64_t moved = log;
                if (rank < 2 * folded) moved = rank % 2 == 1 ? 1 : log + 1;
                return Share{moved * spec.channels, moved * spec.channels};
              }};
}

inline ScheduleCase HalvingDoublingCase(const HalvingDoublingSpec& spec) {
  const int32_t log = Log2Floor(spec.world_size);
  const int32_t p = 1 << log;
  const int32_t folded = spec.world_size - p;
  return {.name = SpecName("HalvingDoubling", spec.world_size, spec.channels),
          .make = [=] { return *MakeHalvingDoubling(spec); },
          .chunks = p * spec.channels,
          .depth = 2 * log + (folded > 0 ? 2 : 0),
          .share =
              [=](int32_t rank) {
                int64_t moved = 2 * (p - 1);
                if (rank < 2 * folded) moved = rank % 2 == 1 ? p : moved + p;
                return Share{moved * spec.channels, moved * spec.channels};
              }};
}

inline ScheduleCase DirectCase(const DirectSpec& spec) {
  const int64_t n = spec.world_size;
  const int64_t rounds = spec.collective == Collective::kAllReduce ? 2 : 1;
  return {.name = SpecName(absl::StrCat("Direct_", NameOf(spec.collective), "_").c_str(),
                           spec.world_size, spec.channels),
          .make = [=] { return *MakeDirect(spec); },
          .chunks = spec.world_size * spec.channels,
          .depth = n > 1 ? rounds : 0,
          .share = Alike(rounds * (n - 1) * spec.channels),
          .collective = spec.collective};
}

inline ScheduleCase HierarchicalCase(const HierarchicalSpec& spec) {
  const int64_t g = spec.group_size;
  const int64_t m = spec.world_size / g;
  return {
      .name = absl::StrCat(SpecName("Hierarchical", spec.world_size, spec.channels), "Groups", g),
      .make = [=] { return *MakeHierarchical(spec); },
      .chunks = spec.world_size * spec.channels,
      .slots_needed = m > 1 || g > 2 ? 2 : 1,
      .depth = 2 * (g - 1) + 2 * (m - 1),
      .share = Alike((2 * (g - 1) * m + 2 * (m - 1)) * spec.channels)};
}

inline std::string PsName(const PsExchangeSpec& spec) {
  return absl::StrCat("Ps_", NameOf(spec.placement), "_Workers", spec.workers, "Servers",
                      spec.servers, "Channels", spec.channels);
}

inline ScheduleCase SpareCase(const PsExchangeSpec& spec) {
  const int64_t chunks = int64_t{spec.servers} * spec.channels;
  const auto share = [=](int32_t rank) {
    const int64_t moved =
        rank < spec.workers ? chunks : int64_t{spec.workers} * chunks / spec.servers;
    return Share{moved, moved};
  };
  return {.name = PsName(spec),
          .make = [=] { return *MakePsExchange(spec); },
          .chunks = spec.servers * spec.channels,
          .depth = 2,
          .share = share};
}

inline ScheduleCase ColocatedCase(PsExchangeSpec spec) {
  spec.placement = Placement::kColocated;
  const auto share = [=](int32_t rank) {
    const int64_t others = spec.servers + spec.workers - 2;
    const int64_t moved = (rank < spec.servers ? others : spec.servers) * spec.channels;
    return Share{moved, moved};
  };
  return {.name = PsName(spec),
          .make = [=] { return *MakePsExchange(spec); },
          .chunks = spec.servers * spec.channels,
          .depth = spec.workers > 1 ? 2 : 0,
          .share = share};
}

// Shares of THEORY C.3: all links carry 2n(n-1) of n^2 + kn - 2k chunks, before the common divisor.
inline ScheduleCase SplitCase(PsExchangeSpec spec) {
  spec.placement = Placement::kSplit;
  const int32_t n = spec.workers;
  const int32_t k = spec.servers;
  int32_t divisor = k == 0 ? n : std::gcd(2 * (n - 1), n - k);
  int32_t chunks = n * n + k * n - 2 * k;
  int32_t moved = 2 * n * (n - 1);
  if (n == 1 && k == 1) divisor = chunks = moved = 1;  // where the shares would be 0/0
  return {.name = PsName(spec),
          .make = [=] { return *MakePsExchange(spec); },
          .chunks = chunks / divisor * spec.channels,
          .depth = n == 1 && k == 0 ? 0 : 2,
          .share = Alike(int64_t{moved} / divisor * spec.channels)};
}

struct Rooted {
  int64_t height = 0;
  std::function<int64_t(int32_t position)> children;
};
inline Rooted RootedOf(TreeForm form, int32_t n) {
  if (form == TreeForm::kChain) {
    return {n - 1, [=](int32_t position) { return position < n - 1 ? 1 : 0; }};
  }
  if (form == TreeForm::kFan) {
    return {n > 1 ? 1 : 0, [=](int32_t position) { return position == 0 ? n - 1 : 0; }};
  }
  return {Log2Floor(n), [=](int32_t position) { return std::clamp(n - 1 - 2 * position, 0, 2); }};
}
inline const char* NameOf(TreeForm form) {
  return form == TreeForm::kChain ? "Chain" : form == TreeForm::kFan ? "Fan" : "Heap";
}

inline ScheduleCase RootedCase(const RootedSpec& spec) {
  const int32_t n = spec.world_size;
  const Rooted tree = RootedOf(spec.form, n);
  const int64_t chunks = int64_t{spec.channels} * spec.chunks_per_channel;
  const bool reduces = spec.collective == Collective::kReduce;
  return {.name = absl::StrCat(SpecName(reduces ? "Reduce" : "Broadcast", n, spec.channels),
                               NameOf(spec.form), "Root", spec.root),
          .make = [=] { return *MakeRooted(spec); },
          .chunks = static_cast<int32_t>(chunks),
          .depth = tree.height,
          .share =
              [=](int32_t rank) {
                const int32_t position = (rank + n - spec.root) % n;
                const int64_t above = position == 0 ? 0 : chunks;
                const int64_t below = tree.children(position) * chunks;
                return reduces ? Share{above, below} : Share{below, above};
              },
          .collective = spec.collective,
          .root = spec.root};
}

inline ScheduleCase BarrierCase(const BarrierSpec& spec) {
  return {.name = absl::StrCat("Barrier", spec.world_size),
          .make = [=] { return *MakeBarrier(spec); },
          .chunks = 1,
          .depth = Log2Ceil(spec.world_size),
          .share = Alike(Log2Ceil(spec.world_size)),
          .collective = Collective::kBarrier};
}

}  // namespace lockstep
