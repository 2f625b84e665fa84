#include "experiments/report/addition_order.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace lockstep {
namespace {

constexpr int kDepthMax = 64;  // far above 16 ranks, far below the stack

// sum: operand '+' operand; operand: 'g' rank | '(' sum ')'. A lone operand is a sum too.
class Evaluation {
 public:
  Evaluation(std::string_view tree, const std::vector<float>& values)
      : rest_(tree), values_(values) {}

  std::optional<float> Run() {
    const std::optional<float> sum = Sum(0);
    return rest_.empty() ? sum : std::nullopt;
  }

 private:
  std::optional<float> Sum(int depth) {
    const std::optional<float> left = Operand(depth);
    if (!left || !Take('+')) return left;
    const std::optional<float> right = Operand(depth);
    if (!right) return std::nullopt;
    return *left + *right;
  }

  std::optional<float> Operand(int depth) {
    if (depth > kDepthMax) return std::nullopt;
    if (Take('(')) {
      const std::optional<float> inner = Sum(depth + 1);
      return inner && Take(')') ? inner : std::nullopt;
    }
    if (!Take('g')) return std::nullopt;
    size_t digits = 0;
    while (digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9') ++digits;
    uint32_t rank = 0;
    if (!absl::SimpleAtoi(std::string(rest_.substr(0, digits)), &rank)) return std::nullopt;
    rest_.remove_prefix(digits);
    return rank < values_.size() ? std::optional<float>(values_[rank]) : std::nullopt;
  }

  bool Take(char letter) {
    if (rest_.empty() || rest_[0] != letter) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::string_view rest_;
  const std::vector<float>& values_;
};

// "10-18" -> 9
std::optional<double> ElementsOf(const std::string& range) {
  const std::vector<std::string> ends = absl::StrSplit(range, '-');
  int64_t first = 0;
  int64_t last = 0;
  if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &first) || !absl::SimpleAtoi(ends[1], &last) ||
      first < 0 || last < first) {
    return std::nullopt;
  }
  return static_cast<double>(last - first) + 1;
}

// "bucket 0: 0-9: g0+g1; 10-18: g1+g0\nbucket 1: ..." -> {"0-9: g0+g1", "10-18: g1+g0", ...}
std::vector<std::string> RunsOf(const std::string& text) {
  std::vector<std::string> runs;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(": ", 1));
    const bool named = parts.size() == 2 && parts[0].rfind("bucket ", 0) == 0;
    for (const std::string& run :
         std::vector<std::string>(absl::StrSplit(named ? parts[1] : line, "; "))) {
      runs.push_back(run);
    }
  }
  return runs;
}

}  // namespace

std::vector<AdditionShare> ReadAdditionOrder(std::string_view text) {
  std::vector<AdditionShare> shares;
  for (const std::string& run : RunsOf(std::string(text))) {
    const std::vector<std::string> parts = absl::StrSplit(run, absl::MaxSplits(": ", 1));
    const std::optional<double> elements = parts.size() == 2 ? ElementsOf(parts[0]) : std::nullopt;
    if (!elements) return {};
    const auto known = std::find_if(shares.begin(), shares.end(), [&](const AdditionShare& share) {
      return share.tree == parts[1];
    });
    if (known == shares.end()) {
      shares.push_back({.tree = parts[1], .elements = *elements});
    } else {
      known->elements += *elements;
    }
  }
  return shares;
}

std::optional<float> AddInOrder(std::string_view tree, const std::vector<float>& values) {
  return Evaluation(tree, values).Run();
}

}  // namespace lockstep
