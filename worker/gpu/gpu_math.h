// gpu_math.h: a model's Math and its optimizer on a GPU: cuBLAS for products, work.h for the rest.
// Errors: kept by the memory (gpu_memory.h). Threads: as Math and LocalOptimizer.
#pragma once

#include <cstdint>
#include <memory>

#include "worker/gpu/gpu_memory.h"
#include "worker/model/math.h"
#include "worker/model/model.h"
#include "worker/sync/local_optimizer.h"

namespace lockstep {

// Owns the memory.
std::unique_ptr<Math<float>> MakeGpuMath(std::unique_ptr<GpuMemory> memory);

// For `model`, whose memory this is. Both must outlive the optimizer.
std::unique_ptr<LocalOptimizer> MakeGpuOptimizer(GpuMemory* memory, Model* model,
                                                 const OptimizerOptions& options);

}  // namespace lockstep
