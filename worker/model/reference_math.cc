#include "worker/model/reference_math.h"

#include <algorithm>
#include <cmath>

namespace lockstep {

template <typename T>
void ReferenceMath<T>::Multiply(const Product<T>& p) {
  for (int64_t row = 0; row < p.m; ++row) {
    for (int64_t column = 0; column < p.n; ++column) {
      T sum = 0;
      for (int64_t i = 0; i < p.k; ++i) {
        const T a = p.transpose_a ? p.a[i * p.m + row] : p.a[row * p.k + i];
        const T b = p.transpose_b ? p.b[column * p.k + i] : p.b[i * p.n + column];
        sum += a * b;
      }
      p.c[row * p.n + column] = sum;
    }
  }
}

template <typename T>
void ReferenceMath<T>::AddBias(int64_t rows, int64_t columns, const T* bias, T* y) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < columns; ++i) y[row * columns + i] += bias[i];
  }
}

template <typename T>
void ReferenceMath<T>::SumRows(int64_t rows, int64_t columns, const T* x, T* sums) {
  std::fill_n(sums, columns, T{0});
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < columns; ++i) sums[i] += x[row * columns + i];
  }
}

template <typename T>
void ReferenceMath<T>::Relu(int64_t count, const T* x, T* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = std::max(x[i], T{0});
}

template <typename T>
void ReferenceMath<T>::ReluGradient(int64_t count, const T* y, const T* dy, T* dx) {
  for (int64_t i = 0; i < count; ++i) dx[i] = y[i] > T{0} ? dy[i] : T{0};
}

template <typename T>
void ReferenceMath<T>::SoftmaxCrossEntropy(const Classification<T>& batch) {
  for (int64_t row = 0; row < batch.rows; ++row) {
    const T* logits = batch.logits + row * batch.classes;
    const int64_t label = batch.labels[row];
    // Shifted by the largest logit, so that exp can't overflow.
    const T largest = *std::max_element(logits, logits + batch.classes);
    T total = 0;
    for (int64_t i = 0; i < batch.classes; ++i) total += std::exp(logits[i] - largest);
    batch.losses[row] = std::log(total) - (logits[label] - largest);
    if (batch.gradient == nullptr) continue;
    T* gradient = batch.gradient + row * batch.classes;
    for (int64_t i = 0; i < batch.classes; ++i) {
      const T probability = std::exp(logits[i] - largest) / total;
      gradient[i] = (probability - (i == label ? T{1} : T{0})) / static_cast<T>(batch.rows);
    }
  }
}

template <typename T>
void ReferenceMath<T>::Scale(int64_t count, T factor, T* x) {
  for (int64_t i = 0; i < count; ++i) x[i] *= factor;
}

template class ReferenceMath<float>;
template class ReferenceMath<double>;

template <typename T>
std::unique_ptr<Math<T>> MakeReferenceMath() {
  return std::make_unique<ReferenceMath<T>>();
}

template std::unique_ptr<Math<float>> MakeReferenceMath();
template std::unique_ptr<Math<double>> MakeReferenceMath();

}  // namespace lockstep
