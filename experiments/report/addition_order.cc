#include "experiments/report/addition_order.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace lockstep {
namespace {

// One bracket's content: operand, or operand '+' operand.
struct Bracket {
  std::optional<float> sum;
  int operands = 0;
  bool plus = false;  // the next operand is still to come

  bool Take(float operand) {
    if (operands > 0 && !plus) return false;
    sum = operands == 0 ? operand : *sum + operand;
    ++operands;
    plus = false;
    return true;
  }
  bool TakePlus() {
    if (operands != 1 || plus) return false;
    plus = true;
    return true;
  }
  bool complete() const { return operands > 0 && !plus; }
};

// The rank behind a 'g', taken off `rest`; nullopt: none, or not below `ranks`.
std::optional<size_t> TakeRank(std::string_view* rest, size_t ranks) {
  size_t digits = 0;
  while (digits < rest->size() && (*rest)[digits] >= '0' && (*rest)[digits] <= '9') ++digits;
  uint32_t rank = 0;
  if (!absl::SimpleAtoi(std::string(rest->substr(0, digits)), &rank) || rank >= ranks) {
    return std::nullopt;
  }
  rest->remove_prefix(digits);
  return rank;
}

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
  std::vector<Bracket> open(1);  // the innermost last
  while (!tree.empty()) {
    const char letter = tree[0];
    tree.remove_prefix(1);
    if (letter == '(') {
      open.emplace_back();
    } else if (letter == '+') {
      if (!open.back().TakePlus()) return std::nullopt;
    } else if (letter == ')') {
      const Bracket closed = open.back();
      open.pop_back();
      if (open.empty() || !closed.complete() || !open.back().Take(*closed.sum)) return std::nullopt;
    } else if (letter == 'g') {
      const std::optional<size_t> rank = TakeRank(&tree, values.size());
      if (!rank || !open.back().Take(values[*rank])) return std::nullopt;
    } else {
      return std::nullopt;
    }
  }
  if (open.size() != 1 || !open[0].complete()) return std::nullopt;
  return open[0].sum;
}

}  // namespace lockstep
