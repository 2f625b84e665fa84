#include "experiments/analyse/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "base/check.h"

namespace lockstep {
namespace {

constexpr double kCoverage = 0.95;

// Continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method.
double BetaFraction(double a, double b, double x) {
  constexpr int kRoundsMax = 300;  // converges in O(sqrt(max(a, b))) rounds
  constexpr double kTiny = 1e-300;
  constexpr double kEnough = 1e-15;
  const auto nonzero = [](double v) { return std::fabs(v) < kTiny ? kTiny : v; };
  double c = 1;
  double d = 1 / nonzero(1 - (a + b) * x / (a + 1));
  double fraction = d;
  for (int round = 1; round <= kRoundsMax; ++round) {
    const double m = round;
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / nonzero(1 + even * d);
    c = nonzero(1 + even / c);
    fraction *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / nonzero(1 + odd * d);
    c = nonzero(1 + odd / c);
    fraction *= d * c;
    if (std::fabs(d * c - 1) < kEnough) break;
  }
  return fraction;
}

// std::lgamma writes the global signgam; all arguments here are positive, so lgamma_r's sign is
// unused.
double LogGamma(double x) {
  int sign = 0;
  return lgamma_r(x, &sign);
}

// Regularised incomplete beta function I_x(a, b).
double IncompleteBeta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(LogGamma(a + b) - LogGamma(a) - LogGamma(b) + a * std::log(x) + b * std::log1p(-x));
  // The fraction converges fast on this side of the mean only; the other side is its mirror image.
  if (x < (a + 1) / (a + b + 2)) return front * BetaFraction(a, b, x) / a;
  return 1 - front * BetaFraction(b, a, 1 - x) / b;
}

// P(at most k of n fair coins show heads).
double CoinsAtMost(int k, int n) {
  double sum = 0;
  for (int i = 0; i <= k; ++i) {
    sum += std::exp(LogGamma(n + 1) - LogGamma(i + 1) - LogGamma(n - i + 1) - n * std::log(2.0));
  }
  return sum;
}

}  // namespace

double Quantile(std::vector<double> values, double share) {
  CHECK(!values.empty()) << "quantile of nothing";
  std::sort(values.begin(), values.end());
  const double position = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, values.size() - 1);
  const double part = position - static_cast<double>(below);
  return values[below] + part * (values[above] - values[below]);
}

Interval MedianInterval(const std::vector<double>& values) {
  CHECK(!values.empty()) << "median of nothing";
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const int n = static_cast<int>(sorted.size());
  // [sorted[k], sorted[n - 1 - k]] misses the median when at most k values fall on one side of it.
  int k = 0;
  while (k + 1 < n / 2 && 1 - 2 * CoinsAtMost(k + 1, n) >= kCoverage) ++k;
  Interval interval;
  interval.set_median(Quantile(sorted, 0.5));
  interval.set_low(sorted[static_cast<size_t>(k)]);
  interval.set_high(sorted[static_cast<size_t>(n - 1 - k)]);
  interval.set_n(n);
  return interval;
}

double StudentTwoSidedP(double t, int degrees) {
  CHECK_GE(degrees, 1);
  const double v = degrees;
  return IncompleteBeta(v / 2, 0.5, v / (v + t * t));
}

double StudentCritical(double alpha, int degrees) {
  double low = 0;
  double high = 1;
  constexpr int kDoublingsMax = 1'000;
  for (int i = 0; i < kDoublingsMax && StudentTwoSidedP(high, degrees) > alpha; ++i) high *= 2;
  constexpr int kHalvings =
      200;  // more than a double has bits: the interval is then one number wide
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (StudentTwoSidedP(middle, degrees) > alpha ? low : high) = middle;
  }
  return (low + high) / 2;
}

std::optional<RatioInterval> PairedLogRatio(const std::vector<double>& a,
                                            const std::vector<double>& b, double alpha) {
  CHECK_EQ(a.size(), b.size()) << "a pair a block";
  if (a.size() < 2) return std::nullopt;
  std::vector<double> logs;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(a[i] > 0) || !(b[i] > 0)) return std::nullopt;
    logs.push_back(std::log(a[i] / b[i]));
  }
  const auto n = static_cast<double>(logs.size());
  const double mean = std::accumulate(logs.begin(), logs.end(), 0.0) / n;
  double squares = 0;
  for (const double value : logs) squares += (value - mean) * (value - mean);
  const double error = std::sqrt(squares / (n - 1) / n);
  const int degrees = static_cast<int>(logs.size()) - 1;
  const double margin = error == 0 ? 0 : StudentCritical(alpha, degrees) * error;
  RatioInterval result;
  result.ratio = std::exp(mean);
  result.low = std::exp(mean - margin);
  result.high = std::exp(mean + margin);
  result.alpha = alpha;
  result.n = static_cast<int>(logs.size());
  if (error > 0) {
    result.p = StudentTwoSidedP(mean / error, degrees);
  } else {
    result.p = mean == 0 ? 1 : 0;
  }
  return result;
}

std::vector<HolmResult> Holm(const std::vector<double>& p, double alpha) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) { return p[i] < p[j]; });
  std::vector<HolmResult> results(p.size());
  bool rejecting = true;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    HolmResult& result = results[order[rank]];
    result.alpha = alpha / static_cast<double>(p.size() - rank);
    rejecting = rejecting && p[order[rank]] < result.alpha;
    result.rejected = rejecting;
  }
  return results;
}

}  // namespace lockstep
