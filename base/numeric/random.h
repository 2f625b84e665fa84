// random.h: random numbers whose bits are the same on every machine, compiler and standard library.
// The i-th number of (seed, stream) is a hash of the three, so that streams neither overlap in use
// nor depend on who drew before. Not for secrets. One object per thread.
// Paper: Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014 (the
// mixer).
#pragma once

#include <cstdint>

namespace lockstep {

class Random {
 public:
  Random(uint64_t seed, uint64_t stream) : key_(Mix(Mix(seed) + stream)) {}

  uint64_t Next() { return Mix(key_ + kGolden * ++drawn_); }

  // Uniform over 0 .. bound-1, without bias. REQUIRES: bound > 0.
  uint32_t Below(uint32_t bound) {
    const uint32_t unfair = (0U - bound) % bound;  // so many low products would favour some results
    for (;;) {
      const uint64_t product = (Next() >> 32) * bound;
      if (static_cast<uint32_t>(product) >= unfair) return static_cast<uint32_t>(product >> 32);
    }
  }

  // Uniform over the 2^24 floats k * 2^-24 in [0, 1): exact, no rounding.
  float Uniform() { return static_cast<float>(Next() >> 40) * 0x1p-24F; }

 private:
  static constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio, odd

  static constexpr uint64_t Mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  uint64_t key_;
  uint64_t drawn_ = 0;
};

}  // namespace lockstep
