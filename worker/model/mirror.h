// mirror.h: a flat array as the host sees it and as Math does. On the host's memory they are one.
// Elsewhere they are two, and who has written one side brings it to the other; memory.h says when a
// copy is through, and what becomes of errors. Threads: as Memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "worker/model/memory.h"

namespace lockstep {

template <typename T>
class Mirror {
 public:
  Mirror() = default;
  // Zeroed. `memory` must outlive it.
  Mirror(Memory* memory, int64_t count)
      : memory_(memory), count_(count), operands_(memory, count), staged_(nullptr, Return{memory}) {
    if (!memory->on_host()) staged_.reset(reinterpret_cast<T*>(memory->TakeStaged(bytes())));
  }

  T* operands() const { return operands_.data(); }
  std::span<T> host() const {
    return {staged_ != nullptr ? staged_.get() : operands(), static_cast<size_t>(count_)};
  }
  void ToOperands() const {
    if (staged_ != nullptr) memory_->Copy(operands(), staged_.get(), bytes());
  }
  void ToHost() const {
    if (staged_ != nullptr) memory_->Copy(staged_.get(), operands(), bytes());
  }

 private:
  struct Return {
    Memory* memory = nullptr;
    void operator()(T* data) const { memory->ReturnStaged(reinterpret_cast<std::byte*>(data)); }
  };
  int64_t bytes() const { return count_ * int64_t{sizeof(T)}; }

  Memory* memory_ = nullptr;
  int64_t count_ = 0;
  Operands<T> operands_;
  std::unique_ptr<T, Return> staged_;
};

}  // namespace lockstep
