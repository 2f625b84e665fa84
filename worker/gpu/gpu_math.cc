#include "worker/gpu/gpu_math.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "worker/model/mirror.h"

namespace lockstep {
namespace {

class GpuMath final : public Math<float> {
 public:
  explicit GpuMath(std::unique_ptr<GpuMemory> memory) : memory_(std::move(memory)) {}

  Memory* memory() override { return memory_.get(); }

  void Multiply(const Product<float>& p) override {
    memory_->Multiply({.a = p.a,
                       .b = p.b,
                       .c = p.c,
                       .transpose_a = p.transpose_a,
                       .transpose_b = p.transpose_b,
                       .m = p.m,
                       .n = p.n,
                       .k = p.k});
  }
  void AddBias(int64_t rows, int64_t columns, const float* bias, float* y) override {
    memory_->Run(gpu::AddBias{.rows = rows, .columns = columns, .bias = bias, .y = y});
  }
  void SumRows(int64_t rows, int64_t columns, const float* x, float* sums) override {
    memory_->Run(gpu::SumRows{.rows = rows, .columns = columns, .x = x, .sums = sums});
  }
  void Relu(int64_t count, const float* x, float* y) override {
    memory_->Run(gpu::Relu{.elements = count, .x = x, .y = y});
  }
  void ReluGradient(int64_t count, const float* y, const float* dy, float* dx) override {
    memory_->Run(gpu::ReluGradient{.elements = count, .y = y, .dy = dy, .dx = dx});
  }
  void SoftmaxCrossEntropy(const Classification<float>& batch) override {
    memory_->Run(gpu::SoftmaxCrossEntropy{.rows = batch.rows,
                                          .classes = batch.classes,
                                          .logits = batch.logits,
                                          .labels = batch.labels,
                                          .losses = batch.losses,
                                          .gradient = batch.gradient});
  }
  void Scale(int64_t count, float factor, float* x) override {
    memory_->Run(gpu::Scale{.elements = count, .factor = factor, .x = x});
  }

 private:
  const std::unique_ptr<GpuMemory> memory_;
};

class GpuOptimizer final : public LocalOptimizer {
 public:
  GpuOptimizer(GpuMemory* memory, Model* model, const OptimizerOptions& options)
      : memory_(memory),
        model_(model),
        options_(options),
        state_(memory, model->parameter_count() * StateSlots(options.kind)) {}

  absl::Status Apply(std::span<const float> gradient_sum, std::span<float> parameters) override {
    CHECK_EQ(static_cast<int64_t>(gradient_sum.size()), model_->parameter_count());
    CHECK_EQ(parameters.data(), model_->parameters().data());
    const Model::ComputedArenas arenas = model_->computed_arenas();
    memory_->Copy(arenas.gradients, gradient_sum.data(),
                  static_cast<int64_t>(gradient_sum.size_bytes()));
    memory_->Run(UpdateAt(++step_, {.parameters_count = model_->parameter_count(),
                                    .divisor = options_.divisor,
                                    .gradient_sum = arenas.gradients,
                                    .state = state_.operands(),
                                    .parameters = arenas.parameters}));
    model_->ParametersUpdated();
    return absl::OkStatus();  // what fails comes out of the next pass
  }
  std::span<const float> state() override {
    state_.ToHost();
    memory_->Await().IgnoreError();  // kept, for the caller's next step or fetch
    return state_.host();
  }
  void SetState(std::span<const float> state, int64_t step) override {
    CHECK_EQ(state.size(), state_.host().size());
    std::copy(state.begin(), state.end(), state_.host().begin());
    state_.ToOperands();
    step_ = step;
  }

 private:
  gpu::Work UpdateAt(int64_t step, const gpu::OptimizerArrays& arrays) const {
    switch (options_.kind) {
      case OptimizerKind::kSgd:
        return gpu::SgdUpdate{numeric::SgdRuleOf(options_), arrays};
      case OptimizerKind::kAdam:
        return gpu::AdamUpdate<false>{numeric::AdamRuleAt<false>(options_, step), arrays};
      case OptimizerKind::kAdamW:
        return gpu::AdamUpdate<true>{numeric::AdamRuleAt<true>(options_, step), arrays};
    }
    CHECK(false) << "no such optimizer: " << static_cast<int>(options_.kind);
    return gpu::SgdUpdate{};
  }

  GpuMemory* const memory_;
  Model* const model_;
  const OptimizerOptions options_;
  const Mirror<float> state_;
  int64_t step_ = 0;
};

}  // namespace

std::unique_ptr<Math<float>> MakeGpuMath(std::unique_ptr<GpuMemory> memory) {
  return std::make_unique<GpuMath>(std::move(memory));
}

std::unique_ptr<LocalOptimizer> MakeGpuOptimizer(GpuMemory* memory, Model* model,
                                                 const OptimizerOptions& options) {
  return std::make_unique<GpuOptimizer>(memory, model, options);
}

}  // namespace lockstep
