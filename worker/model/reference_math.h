// reference_math.h: Math as plain loops, in the order in which the formulas are written. T: float,
// double.
#pragma once

#include "worker/model/math.h"

namespace lockstep {

template <typename T>
class ReferenceMath : public Math<T> {
 public:
  Memory* memory() override { return HostMemory(); }
  void Multiply(const Product<T>& product) override;
  void AddBias(int64_t rows, int64_t columns, const T* bias, T* y) override;
  void SumRows(int64_t rows, int64_t columns, const T* x, T* sums) override;
  void Relu(int64_t count, const T* x, T* y) override;
  void ReluGradient(int64_t count, const T* y, const T* dy, T* dx) override;
  void SoftmaxCrossEntropy(const Classification<T>& batch) override;
  void Scale(int64_t count, T factor, T* x) override;
};

extern template class ReferenceMath<float>;
extern template class ReferenceMath<double>;

}  // namespace lockstep
