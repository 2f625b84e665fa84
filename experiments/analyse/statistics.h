// statistics.h: the arithmetic behind intervals and comparisons. Pure; no units of its own.
// The comparison is a paired t-interval on log ratios: blocks share the host's mood, so pairing
// removes it. At 5 blocks it finds a 10 % gap under 5 % noise in 62 % of cases, overlap of two
// intervals in 34 %; a bootstrap interval of 3 values would cover 80 % only.
// Errors: none; what cannot be computed from too few values is std::nullopt.
// Papers: Student, Biometrika 6(1), 1908; Holm, Scandinavian Journal of Statistics 6(2), 1979.
#pragma once

#include <optional>
#include <vector>

#include "proto/record.pb.h"

namespace lockstep {

// Linear between the two nearest order statistics (type 7 of Hyndman and Fan). REQUIRES: not empty.
double Quantile(std::vector<double> values, double share);

// Median with an order-statistic interval: the narrowest symmetric one that covers the true median
// with at least 95 %; below 6 values none does, and the interval is min..max (3 values: 75 %, 5: 94
// %). REQUIRES: not empty.
Interval MedianInterval(const std::vector<double>& values);

// P(|T| > t) for Student's t. REQUIRES: degrees >= 1.
double StudentTwoSidedP(double t, int degrees);
// The t with P(|T| > t) = alpha. REQUIRES: degrees >= 1, 0 < alpha < 1.
double StudentCritical(double alpha, int degrees);

struct RatioInterval {
  double ratio = 1;  // geometric mean of a[i] / b[i]
  double low = 1;
  double high = 1;
  double alpha = 0.05;  // low..high has level 1 - alpha
  double p = 1;         // two-sided, against a ratio of 1
  int n = 0;            // pairs
};
// a[i] and b[i] are of the same block. nullopt: fewer than two pairs, or a value that is not
// positive.
std::optional<RatioInterval> PairedLogRatio(const std::vector<double>& a,
                                            const std::vector<double>& b, double alpha);

struct HolmResult {
  bool rejected = false;
  double alpha = 0;  // level at which this p was tested
};
// Holm's step-down: the chance of even one false rejection among all is at most alpha.
std::vector<HolmResult> Holm(const std::vector<double>& p, double alpha);

}  // namespace lockstep
