// addition_order.h: reads VariantResult.addition_order, a line a bucket: "bucket 0: 0-9:
// g0+(g1+g2); 10-18: (g0+g1)+g2" (worker/sync/addition_order.h, allreduce/schedule/order.h), to
// show what an order of additions does to a sum that floats can't hold exactly. Errors: a text of
// another form (cut, a fingerprint, EXACT) gives no trees. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct AdditionShare {
  std::string tree;     // "((g0+g1)+g2)+g3"
  double elements = 0;  // how many are added that way
};

// The different trees of a text, in the order in which they occur.
std::vector<AdditionShare> ReadAdditionOrder(std::string_view text);

// The sum of `values`, one a rank, in f32 and in the tree's order. nullopt: no tree over them.
std::optional<float> AddInOrder(std::string_view tree, const std::vector<float>& values);

}  // namespace lockstep
