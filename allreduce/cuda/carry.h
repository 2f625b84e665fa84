// carry.h: the one path of data in every kernel: value = sources summed in order, stored at every
// target, each byte read and written once. Packs of 16 bytes where all addresses allow it, else
// single elements, byte by byte where not even an element is aligned. A single source is copied as
// it is. Pointers are plain: what another rank writes during the kernel must not be read through a
// cache that is not coherent, which __restrict__ would allow.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "allreduce/cuda/call.h"

namespace lockstep::gpu {

// Sources and targets in registers: their number is a constant of the code.
template <int kCount>
struct Sources {
  static constexpr int kAtOnce = kCount == 1 ? 4 : kCount == 2 ? 2 : 1;  // packs under way
  const std::byte* at[kCount];
  LOCKSTEP_INLINE int count() const { return kCount; }
};
struct Targets {
  static constexpr int kCount = 1 + kChildrenMax;
  std::byte* at[kCount] = {};  // null: none
  LOCKSTEP_INLINE int count() const { return kCount; }
};

// Every rank's: as many as the call says.
struct AllSources {
  static constexpr int kAtOnce = 4;
  const std::byte* const* addresses;
  int64_t offset;
  int32_t world_size;
  LOCKSTEP_INLINE int count() const { return world_size; }
};
struct AllTargets {
  std::byte* const* addresses;
  int64_t offset;
  int32_t world_size;
  LOCKSTEP_INLINE int count() const { return world_size; }
};

template <int kCount>
LOCKSTEP_INLINE const std::byte* At(const Sources<kCount>& sources, int i) {
  return sources.at[i];
}
LOCKSTEP_INLINE std::byte* At(const Targets& targets, int i) { return targets.at[i]; }
LOCKSTEP_INLINE const std::byte* At(const AllSources& sources, int i) {
  return sources.addresses[i] + sources.offset;
}
LOCKSTEP_INLINE std::byte* At(const AllTargets& targets, int i) {
  return targets.addresses[i] + targets.offset;
}

template <typename T>
struct alignas(kPackBytes) Pack {
  static constexpr int kElements = static_cast<int>(kPackBytes / static_cast<int64_t>(sizeof(T)));
  T element[kElements];
};

LOCKSTEP_INLINE bool IsAligned(const std::byte* address, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(bytes) == 0;
}

template <typename SourceList, typename TargetList>
LOCKSTEP_INLINE bool AllAligned(const SourceList& sources, const TargetList& targets) {
  bool aligned = true;
  LOCKSTEP_UNROLL
  for (int s = 0; s < sources.count(); ++s) {
    aligned = aligned && IsAligned(At(sources, s), kPackBytes);
  }
  LOCKSTEP_UNROLL
  for (int t = 0; t < targets.count(); ++t) {
    aligned = aligned && IsAligned(At(targets, t), kPackBytes);
  }
  return aligned;  // null is
}

template <typename T, typename Team>
LOCKSTEP_INLINE T LoadAnywhere(Team* team, const std::byte* address) {
  if (IsAligned(address, sizeof(T))) return team->template Load<T>(address);
  struct {
    alignas(T) uint8_t byte[sizeof(T)];
  } value;
  LOCKSTEP_UNROLL
  for (size_t i = 0; i < sizeof(T); ++i) value.byte[i] = team->template Load<uint8_t>(address + i);
  return std::bit_cast<T>(value);
}

template <typename T, typename Team>
LOCKSTEP_INLINE void StoreAnywhere(Team* team, std::byte* address, T element) {
  if (IsAligned(address, sizeof(T))) return team->Store(address, element);
  struct Bytes {
    alignas(T) uint8_t byte[sizeof(T)];
  };
  const auto value = std::bit_cast<Bytes>(element);
  LOCKSTEP_UNROLL
  for (size_t i = 0; i < sizeof(T); ++i) team->Store(address + i, value.byte[i]);
}

// `kGroup` packs of a thread, `stride` bytes apart, in one go: their loads are under way together.
template <typename P, int kGroup, typename Team>
LOCKSTEP_INLINE void LoadPacks(Team* team, const std::byte* address, int64_t stride_bytes,
                               P (&packs)[kGroup]) {
  LOCKSTEP_UNROLL
  for (int g = 0; g < kGroup; ++g) packs[g] = team->template Load<P>(address + g * stride_bytes);
}

// Sum of a fixed number of sources: all loads first, then element by element.
template <typename F, int kGroup, int kCount, typename Team, typename P>
LOCKSTEP_INLINE void SumPacks(Team* team, const Sources<kCount>& sources, int64_t first_byte,
                              int64_t stride_bytes, int32_t divisor, P (&sum)[kGroup]) {
  P packs[kCount][kGroup];
  LOCKSTEP_UNROLL
  for (int s = 0; s < kCount; ++s) {
    LoadPacks(team, sources.at[s] + first_byte, stride_bytes, packs[s]);
  }
  LOCKSTEP_UNROLL
  for (int g = 0; g < kGroup; ++g) {
    if constexpr (kCount == 1) {
      sum[g] = packs[0][g];
    } else {
      LOCKSTEP_UNROLL
      for (int e = 0; e < P::kElements; ++e) {
        typename F::Value value = F::Widen(packs[0][g].element[e]);
        LOCKSTEP_UNROLL
        for (int s = 1; s < kCount; ++s) {
          value = F::Combine(value, F::Widen(packs[s][g].element[e]));
        }
        sum[g].element[e] = F::Finish(value, divisor);
      }
    }
  }
}

// Of any number: source by source.
template <typename F, int kGroup, typename Team, typename P>
LOCKSTEP_INLINE void SumPacks(Team* team, const AllSources& sources, int64_t first_byte,
                              int64_t stride_bytes, int32_t divisor, P (&sum)[kGroup]) {
  LoadPacks(team, At(sources, 0) + first_byte, stride_bytes, sum);
  if (sources.count() == 1) return;
  typename F::Value values[kGroup][P::kElements];
  LOCKSTEP_UNROLL
  for (int g = 0; g < kGroup; ++g) {
    LOCKSTEP_UNROLL
    for (int e = 0; e < P::kElements; ++e) values[g][e] = F::Widen(sum[g].element[e]);
  }
  for (int s = 1; s < sources.count(); ++s) {
    LoadPacks(team, At(sources, s) + first_byte, stride_bytes, sum);
    LOCKSTEP_UNROLL
    for (int g = 0; g < kGroup; ++g) {
      LOCKSTEP_UNROLL
      for (int e = 0; e < P::kElements; ++e) {
        values[g][e] = F::Combine(values[g][e], F::Widen(sum[g].element[e]));
      }
    }
  }
  LOCKSTEP_UNROLL
  for (int g = 0; g < kGroup; ++g) {
    LOCKSTEP_UNROLL
    for (int e = 0; e < P::kElements; ++e) sum[g].element[e] = F::Finish(values[g][e], divisor);
  }
}

template <typename F, int kGroup, typename Team, typename SourceList, typename TargetList>
LOCKSTEP_INLINE void CarryPacks(Team* team, const SourceList& sources, const TargetList& targets,
                                int64_t first_byte, int64_t stride_bytes, int32_t divisor) {
  Pack<typename F::Stored> sum[kGroup];
  SumPacks<F>(team, sources, first_byte, stride_bytes, divisor, sum);
  LOCKSTEP_UNROLL
  for (int t = 0; t < targets.count(); ++t) {
    std::byte* const target = At(targets, t);
    if (target == nullptr) continue;
    LOCKSTEP_UNROLL
    for (int g = 0; g < kGroup; ++g) team->Store(target + first_byte + g * stride_bytes, sum[g]);
  }
}

template <typename F, typename Team, typename SourceList, typename TargetList>
LOCKSTEP_INLINE void CarryElement(Team* team, const SourceList& sources, const TargetList& targets,
                                  int64_t at_byte, int32_t divisor) {
  using T = typename F::Stored;
  T stored = LoadAnywhere<T>(team, At(sources, 0) + at_byte);
  if (sources.count() > 1) {
    typename F::Value value = F::Widen(stored);
    for (int s = 1; s < sources.count(); ++s) {
      value = F::Combine(value, F::Widen(LoadAnywhere<T>(team, At(sources, s) + at_byte)));
    }
    stored = F::Finish(value, divisor);
  }
  for (int t = 0; t < targets.count(); ++t) {
    std::byte* const target = At(targets, t);
    if (target != nullptr) StoreAnywhere(team, target + at_byte, stored);
  }
}

// All threads of a team share `elements` elements among them.
template <typename F, typename Team, typename SourceList, typename TargetList>
LOCKSTEP_ANYWHERE void Carry(Team* team, const SourceList& sources, const TargetList& targets,
                             int64_t elements, int32_t divisor) {
  using T = typename F::Stored;
  constexpr int64_t kElements = Pack<T>::kElements;
  // Halves take twice the registers once they are widened, and more than there are would spill.
  constexpr bool kWidened = kElements > 4 && SourceList::kAtOnce > 1;
  constexpr int kGroup = kWidened ? SourceList::kAtOnce / 2 : SourceList::kAtOnce;
  const int64_t threads = team->size();
  const int64_t packs = AllAligned(sources, targets) ? elements / kElements : 0;
  const int64_t stride_bytes = threads * kPackBytes;
  const int64_t in_groups = packs / (kGroup * threads) * (kGroup * threads);
  for (int64_t p = team->rank(); p < in_groups; p += kGroup * threads) {
    CarryPacks<F, kGroup>(team, sources, targets, p * kPackBytes, stride_bytes, divisor);
  }
  for (int64_t p = in_groups + team->rank(); p < packs; p += threads) {
    CarryPacks<F, 1>(team, sources, targets, p * kPackBytes, stride_bytes, divisor);
  }
  for (int64_t i = packs * kElements + team->rank(); i < elements; i += threads) {
    CarryElement<F>(team, sources, targets, i * static_cast<int64_t>(sizeof(T)), divisor);
  }
}

}  // namespace lockstep::gpu
