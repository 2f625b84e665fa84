// work.h: what a model's GPU does beside matrix products. Each piece of work is data with a body
// for one of its `count` parts, and the parts may run in any order: nvcc compiles the bodies for a
// GPU's threads, g++ for the host, where the tests compare their bits with the reference. Sums have
// the reference's order, and nothing is added atomically, so the bits are those of every run.
// Arrays: math.h; operands of the device. Pure; builds without Abseil.
#pragma once

#include <cmath>
#include <cstdint>
#include <variant>

#include "base/numeric/anywhere.h"
#include "base/numeric/optimizer_rule.h"

namespace lockstep::gpu {

// y (rows, columns) += bias (columns), in each row; a part is an element.
struct AddBias {
  static constexpr const char* kName = "AddBias";
  int64_t rows = 0;
  int64_t columns = 0;
  const float* bias = nullptr;
  float* y = nullptr;
  LOCKSTEP_INLINE int64_t count() const { return rows * columns; }
  LOCKSTEP_INLINE void operator()(int64_t i) const { y[i] += bias[i % columns]; }
};

// sums (columns) = sum over the rows of x (rows, columns), first row first; a part is a column.
struct SumRows {
  static constexpr const char* kName = "SumRows";
  int64_t rows = 0;
  int64_t columns = 0;
  const float* x = nullptr;
  float* sums = nullptr;
  LOCKSTEP_INLINE int64_t count() const { return columns; }
  LOCKSTEP_INLINE void operator()(int64_t column) const {
    float sum = 0;
    for (int64_t row = 0; row < rows; ++row) sum += x[row * columns + column];
    sums[column] = sum;
  }
};

// y = max(x, 0), and a NaN stays one.
struct Relu {
  static constexpr const char* kName = "Relu";
  int64_t elements = 0;
  const float* x = nullptr;
  float* y = nullptr;
  LOCKSTEP_INLINE int64_t count() const { return elements; }
  LOCKSTEP_INLINE void operator()(int64_t i) const { y[i] = x[i] < 0.0F ? 0.0F : x[i]; }
};

struct ReluGradient {
  static constexpr const char* kName = "ReluGradient";
  int64_t elements = 0;
  const float* y = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;
  LOCKSTEP_INLINE int64_t count() const { return elements; }
  LOCKSTEP_INLINE void operator()(int64_t i) const { dx[i] = y[i] > 0.0F ? dy[i] : 0.0F; }
};

struct Scale {
  static constexpr const char* kName = "Scale";
  int64_t elements = 0;
  float factor = 1;
  float* x = nullptr;
  LOCKSTEP_INLINE int64_t count() const { return elements; }
  LOCKSTEP_INLINE void operator()(int64_t i) const { x[i] *= factor; }
};

// math.h's Classification; a part is a row.
struct SoftmaxCrossEntropy {
  static constexpr const char* kName = "SoftmaxCrossEntropy";
  int64_t rows = 0;
  int64_t classes = 0;
  const float* logits = nullptr;
  const int32_t* labels = nullptr;
  float* losses = nullptr;
  float* gradient = nullptr;  // not wanted when null
  LOCKSTEP_INLINE int64_t count() const { return rows; }
  LOCKSTEP_INLINE void operator()(int64_t row) const {
    const float* x = logits + row * classes;
    const int64_t label = labels[row];
    // Shifted by the largest logit, so that exp can't overflow.
    float largest = x[0];
    for (int64_t i = 1; i < classes; ++i) largest = largest < x[i] ? x[i] : largest;
    float total = 0;
    for (int64_t i = 0; i < classes; ++i) total += std::exp(x[i] - largest);
    losses[row] = std::log(total) - (x[label] - largest);
    if (gradient == nullptr) return;
    float* out = gradient + row * classes;
    for (int64_t i = 0; i < classes; ++i) {
      const float probability = std::exp(x[i] - largest) / total;
      out[i] = (probability - (i == label ? 1.0F : 0.0F)) / static_cast<float>(rows);
    }
  }
};

// optimizer.h; a part is a parameter. The state's slots lie one after the other.
struct OptimizerArrays {
  int64_t parameters_count = 0;
  float divisor = 1;
  const float* gradient_sum = nullptr;
  float* state = nullptr;
  float* parameters = nullptr;
};
struct SgdUpdate {
  static constexpr const char* kName = "SgdUpdate";
  numeric::SgdRule rule;
  OptimizerArrays arrays;
  LOCKSTEP_INLINE int64_t count() const { return arrays.parameters_count; }
  LOCKSTEP_INLINE void operator()(int64_t i) const {
    const float g = arrays.gradient_sum[i] / arrays.divisor;
    float* const w = arrays.parameters + i;
    *w = rule.momentum == 0.0F ? rule.PlainStep(g, *w) : rule.Step(g, arrays.state + i, *w);
  }
};
template <bool kDecoupled>
struct AdamUpdate {
  static constexpr const char* kName = kDecoupled ? "AdamWUpdate" : "AdamUpdate";
  numeric::AdamRule<kDecoupled> rule;
  OptimizerArrays arrays;
  LOCKSTEP_INLINE int64_t count() const { return arrays.parameters_count; }
  LOCKSTEP_INLINE void operator()(int64_t i) const {
    const float g = arrays.gradient_sum[i] / arrays.divisor;
    float* const w = arrays.parameters + i;
    *w = rule.Step(g, arrays.state + i, arrays.state + arrays.parameters_count + i, *w);
  }
};

using Work = std::variant<AddBias, SumRows, Relu, ReluGradient, Scale, SoftmaxCrossEntropy,
                          SgdUpdate, AdamUpdate<false>, AdamUpdate<true>>;

inline const char* NameOf(const Work& work) {
  return std::visit([](const auto& one) { return one.kName; }, work);
}
inline int64_t PartsOf(const Work& work) {
  return std::visit([](const auto& one) { return one.count(); }, work);
}

}  // namespace lockstep::gpu
