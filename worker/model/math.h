// math.h: the few operations that layers are written over, so that a layer exists once and runs in
// fp32 on oneDNN or on a GPU, and in plain fp64 for the tests. Matrices are row-major, without
// gaps; arrays are operands of memory(). Calls happen in order, but may return before they are
// through. Sizes are the caller's (>= 1 each). Errors: those of memory(), kept until its Await;
// none on the host. Threads: one thread an object.
#pragma once

#include <cstdint>
#include <memory>

#include "worker/model/memory.h"

namespace lockstep {

// c (m, n) = op(a) (m, k) * op(b) (k, n), where op transposes if asked: a is then stored (k, m), b
// (n, k).
template <typename T>
struct Product {
  const T* a = nullptr;
  const T* b = nullptr;
  T* c = nullptr;
  bool transpose_a = false;
  bool transpose_b = false;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
};

// Softmax and cross-entropy of `rows` samples over `classes` logits each.
template <typename T>
struct Classification {
  int64_t rows = 0;
  int64_t classes = 0;
  const T* logits = nullptr;        // (rows, classes)
  const int32_t* labels = nullptr;  // (rows), 0 .. classes-1
  T* losses = nullptr;              // (rows): -log softmax(logits)[label]
  T* gradient = nullptr;            // (rows, classes), of the mean loss; not wanted when null
};

template <typename T>
class Math {
 public:
  virtual ~Math() = default;

  virtual Memory* memory() = 0;
  virtual void Multiply(const Product<T>& product) = 0;
  // y (rows, columns) += bias (columns), in each row.
  virtual void AddBias(int64_t rows, int64_t columns, const T* bias, T* y) = 0;
  // sums (columns) = sum over the rows of x (rows, columns).
  virtual void SumRows(int64_t rows, int64_t columns, const T* x, T* sums) = 0;
  // y = max(x, 0); count elements.
  virtual void Relu(int64_t count, const T* x, T* y) = 0;
  // dx = dy where y > 0, else 0.
  virtual void ReluGradient(int64_t count, const T* y, const T* dy, T* dx) = 0;
  virtual void SoftmaxCrossEntropy(const Classification<T>& batch) = 0;
  // x *= factor; count elements.
  virtual void Scale(int64_t count, T factor, T* x) = 0;
};

// Plain loops: what the other implementations are tested against. T: float, double.
template <typename T>
std::unique_ptr<Math<T>> MakeReferenceMath();

// oneDNN's matrix product on one thread, plain loops for the rest.
std::unique_ptr<Math<float>> MakeDnnlMath();

}  // namespace lockstep
