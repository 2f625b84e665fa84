// arena.h: one flat buffer, zeroed, that starts at a 64-byte boundary (a cache line, and the widest
// vector), of which tensors are views. Its size never changes. Threads: as for an array.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "base/check.h"

namespace lockstep {

template <typename T>
class Arena {
 public:
  static constexpr std::align_val_t kAlignment{64};

  Arena() = default;
  explicit Arena(int64_t count) : count_(count) {
    CHECK_GE(count, 0);
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    data_.reset(static_cast<T*>(::operator new(bytes, kAlignment)));
    std::fill_n(data_.get(), count, T{0});
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  int64_t count() const { return count_; }
  std::span<T> span() { return {data_.get(), static_cast<size_t>(count_)}; }
  std::span<const T> span() const { return {data_.get(), static_cast<size_t>(count_)}; }

 private:
  struct Free {
    void operator()(T* data) const { ::operator delete(data, kAlignment); }
  };

  std::unique_ptr<T, Free> data_;
  int64_t count_ = 0;
};

}  // namespace lockstep
