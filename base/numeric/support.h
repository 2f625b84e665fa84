// support.h: which reductions each element type has, and in which type they are accumulated: one
// table for every engine, so that what one refuses all refuse. Pure.
#pragma once

#include <string>

#include "base/numeric/dtype.h"

namespace lockstep {

// AVG is for floats alone: an integer's mean would need a rounding rule of its own. Everything else
// is there for every dtype. False for numbers that are no dtype or reduction.
bool Supports(Dtype dtype, ReduceOp op);

// The type an addition runs in: f32 for f16 and bf16, each result rounded back; else the type
// itself.
Dtype AccumulatesIn(Dtype dtype);

// One line for errors and help: "f32, f64, f16 (in f32), bf16 (in f32): sum, avg, ...; i32, i64, u8
// (wrap): sum, ...".
std::string SupportText();

}  // namespace lockstep
