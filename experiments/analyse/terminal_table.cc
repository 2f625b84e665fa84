#include "experiments/analyse/terminal_table.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "experiments/analyse/balance.h"
#include "experiments/analyse/bits.h"
#include "experiments/analyse/format.h"
#include "experiments/analyse/terminal_text.h"

namespace lockstep {
namespace {

constexpr size_t kColumns = 8;
using Row = std::array<std::string, kColumns>;

// Every cell but the variant has a bound, so that the table fits whatever the numbers are; the
// variant's column takes what is left.
constexpr size_t kRateChars = 8;
constexpr size_t kNumberChars = 6;
constexpr size_t kShareChars = 7;
constexpr size_t kLossChars = 8;  // "0.000412"; a loss has no smaller unit to go to
constexpr size_t kNodeChars = 8;
constexpr std::array<bool, kColumns> kRight = {false, true, true, true, true, true, false, true};
constexpr char kAbsent[] = "-";

// A column's unit, `divisor` of what the run file holds. Three digits of 0.01 and above fit into
// kNumberChars, so smaller values take the smaller unit; all rows the same, so that they compare.
struct Unit {
  const char* name;
  double divisor;
};
Unit PickUnit(const std::vector<double>& values, const Unit& large, const Unit& small) {
  constexpr double kLeast = 0.01;
  constexpr double kMost = 999'999;
  double least = kLeast * large.divisor;
  double most = 0;
  for (const double value : values) {
    if (value > 0) least = std::min(least, value);
    most = std::max(most, value);
  }
  const bool fits = most <= kMost * small.divisor;
  return least < kLeast * large.divisor && fits ? small : large;
}

struct Units {
  Unit bytes;
  Unit time;  // run files hold microseconds
};
Units UnitsOf(const std::vector<const VariantResult*>& variants) {
  std::vector<double> bytes;
  std::vector<double> times_us;
  for (const VariantResult* variant : variants) {
    bytes.insert(bytes.end(), {variant->bytes().tx_per_worker_step(), variant->bytes().formula(),
                               variant->busiest().bytes_per_step()});
    times_us.insert(times_us.end(), {variant->step_us().p50(), variant->step_us().p95()});
  }
  return {.bytes = PickUnit(bytes, {"MB", 1e6}, {"kB", 1e3}),
          .time = PickUnit(times_us, {"ms", 1e3}, {"us", 1})};
}

// Three digits, fewer where they would not fit.
std::string Cell(double value, size_t chars) {
  std::string text = Significant(value, 3);
  for (int decimals = 1; decimals >= 0 && text.size() > chars; --decimals) {
    char buffer[32];
    std::snprintf(buffer, sizeof(buffer), "%.*e", decimals, value);
    text = buffer;
  }
  return text;
}

std::string UnitCell(double value, const Unit& unit) {
  return Cell(value / unit.divisor, kNumberChars);
}

// "server 0", "in" -> "s0 in".
std::string ShortNode(const Busiest& busiest) {
  const std::vector<std::string> words = absl::StrSplit(busiest.node(), ' ');
  const std::string node = words.size() == 2 && !words[0].empty()
                               ? absl::StrCat(words[0].substr(0, 1), words[1])
                               : busiest.node();
  return Clip(Ascii(absl::StrCat(node, " ", busiest.direction())), kNodeChars);
}

std::string ReplicaCell(const ReplicaResult& replicas) {
  if (replicas.state() == "diverged" &&
      replicas.max_rel().kind_case() == google::protobuf::Value::kNumberValue) {
    const std::string share = Significant(replicas.max_rel().number_value() * 100, 2);
    return absl::StrCat(share.size() > kShareChars
                            ? Cell(replicas.max_rel().number_value() * 100, kShareChars)
                            : share,
                        "% apart");
  }
  return replicas.state().empty() ? kAbsent : Clip(Ascii(replicas.state()), 12);
}

Row RowOf(const VariantResult& variant, const Units& units) {
  Row row;
  row.fill(kAbsent);
  row[0] = Ascii(variant.id());
  if (variant.has_samples_per_s()) row[1] = Cell(variant.samples_per_s().median(), kRateChars);
  if (variant.has_step_us()) {
    row[2] = absl::StrCat(UnitCell(variant.step_us().p50(), units.time), "/",
                          UnitCell(variant.step_us().p95(), units.time));
  }
  if (variant.has_bytes()) {
    row[3] = UnitCell(variant.bytes().tx_per_worker_step(), units.bytes);
    const bool chosen = variant.algorithm() == "auto";  // by size: no formula
    if (!chosen) row[4] = UnitCell(variant.bytes().formula(), units.bytes);
  }
  if (variant.has_busiest()) {
    row[5] = absl::StrCat(ShortNode(variant.busiest()), " ",
                          UnitCell(variant.busiest().bytes_per_step(), units.bytes));
  }
  row[6] = ReplicaCell(variant.replicas());
  if (variant.loss().has_final()) row[7] = Cell(variant.loss().final(), kLossChars);
  return row;
}

// The control's mark survives a cut name.
std::string NameCell(const std::string& name, bool is_control, size_t width) {
  if (!is_control) return Clip(name, width);
  return absl::StrCat(Clip(name, width - 1), "*");
}

std::string Line(const Row& row, const std::array<size_t, kColumns>& width, size_t gap) {
  std::string line;
  for (size_t i = 0; i < kColumns; ++i) {
    const std::string pad(width[i] - std::min(width[i], row[i].size()), ' ');
    absl::StrAppend(&line, i == 0 ? "" : std::string(gap, ' '), kRight[i] ? pad : "", row[i],
                    kRight[i] ? "" : pad);
  }
  absl::StripTrailingAsciiWhitespace(&line);
  return line + "\n";
}

// Ways with the same formulas share an entry.
std::string FormulaNote(const std::vector<const VariantResult*>& variants) {
  std::vector<std::pair<std::string, std::vector<std::string>>> formulas;  // (text, variants)
  for (const VariantResult* variant : variants) {
    const BytesResult& bytes = variant->bytes();
    const std::string& busiest = variant->busiest().formula_text();
    if (!variant->ranked() || bytes.formula_text().empty()) continue;
    std::string text = bytes.formula_text();
    if (!bytes.server_formula_text().empty()) {
      absl::StrAppend(&text, " (each server ", bytes.server_formula_text(), " in and out)");
    } else if (!busiest.empty() && busiest != bytes.formula_text()) {
      absl::StrAppend(&text, " (busiest ", busiest, ")");
    }
    const auto same = std::find_if(formulas.begin(), formulas.end(),
                                   [&](const auto& entry) { return entry.first == text; });
    if (same == formulas.end()) {
      formulas.push_back({text, {variant->id()}});
    } else {
      same->second.push_back(variant->id());
    }
  }
  std::vector<std::string> parts;
  parts.reserve(formulas.size());
  for (const auto& [text, ids] : formulas) {
    parts.push_back(absl::StrCat(JoinNames(ids), " ", text));
  }
  return parts.empty() ? "" : absl::StrCat("formulas: ", absl::StrJoin(parts, "; "));
}

// Nothing where all ended with the same bits: the verdict says that.
std::string BitsNote(const std::vector<const VariantResult*>& variants) {
  const std::vector<BitsGroup> groups = GroupByBits(variants);
  if (groups.size() < 2) return "";
  std::vector<std::string> parts;
  for (const BitsGroup& group : groups) {
    std::vector<std::string> ids;
    ids.reserve(group.size());
    for (const VariantResult* variant : group) ids.push_back(variant->id());
    parts.push_back(absl::StrJoin(ids, " = "));
  }
  return absl::StrCat("equal bits at the end: ", absl::StrJoin(parts, "; "));
}

std::string StalenessNote(const VariantResult& variant) {
  if (!variant.has_staleness()) return "";
  const StalenessResult& staleness = variant.staleness();
  std::vector<std::string> parts;
  if (staleness.server_size() > 0) {
    parts.push_back(absl::StrCat("stale by ", Significant(staleness.mean_update(), 2),
                                 " updates (law ", Significant(staleness.expected_mean(), 2), ")"));
  }
  parts.push_back(absl::StrCat(StepNumber(staleness.applied()), " of ",
                               StepNumber(staleness.expected_applied()), " applied"));
  if (variant.has_synchrony()) {
    parts.push_back(
        absl::StrCat("step gap up to ", StepNumber(variant.synchrony().step_gap_max())));
  }
  const LossResult& loss = variant.loss();
  if (loss.has_at_equal_samples()) {
    parts.push_back(
        absl::StrCat("loss ", Significant(loss.at_equal_samples(), 3), " at equal samples"));
  }
  if (loss.has_at_equal_time()) {
    parts.push_back(absl::StrCat("loss ", Significant(loss.at_equal_time(), 3), " at equal time"));
  }
  return absl::StrCat(variant.id(), ": ", absl::StrJoin(parts, ", "));
}

// Where it says something: of the default, only that it did not come out even.
std::string BalanceNote(const VariantResult& variant) {
  const BalanceResult& balance = variant.balance();
  const bool chosen = balance.placement() != NameOf(PsPlacement::kSplit);
  if (balance.server_size() < 2 || (!chosen && balance.max_over_mean() <= kBalancedMax)) return "";
  return absl::StrCat(variant.id(), ", placed ", BalanceText(variant.balance()));
}

}  // namespace

std::string TerminalTable(const std::vector<const VariantResult*>& variants) {
  const Units units = UnitsOf(variants);
  const std::string bytes = units.bytes.name;
  std::vector<Row> rows = {{"variant", "samples", absl::StrCat("step ", units.time.name),
                            bytes + " sent", "formula", "busiest", "replicas", "final"},
                           {"", "/s", "p50/p95", "/worker", bytes, "link " + bytes, "", "loss"}};
  std::vector<bool> is_control = {false, false};
  for (const VariantResult* variant : variants) {
    rows.push_back(RowOf(*variant, units));
    is_control.push_back(!variant->ranked());
  }
  std::array<size_t, kColumns> width{};
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < kColumns; ++i) {
      width[i] = std::max(width[i], rows[r][i].size() + (i == 0 && is_control[r] ? 1 : 0));
    }
  }
  size_t others = 0;
  for (size_t i = 1; i < kColumns; ++i) others += width[i];
  const size_t gap = width[0] + others + 2 * (kColumns - 1) <= kTerminalWidth ? 2 : 1;
  width[0] = std::min(width[0], kTerminalWidth - others - gap * (kColumns - 1));
  std::string table;
  for (size_t r = 0; r < rows.size(); ++r) {
    rows[r][0] = NameCell(rows[r][0], is_control[r], width[0]);
    table += Line(rows[r], width, gap);
  }
  return table;
}

std::string TerminalNotes(const std::vector<const VariantResult*>& variants) {
  std::string notes =
      Wrap("bytes per step, 1 MB = 10^6 bytes, 1 kB = 10^3; s0 = server 0, w0 = worker 0", "  ");
  notes += Wrap(FormulaNote(variants), "  ");
  notes += Wrap(BitsNote(variants), "  ");
  bool has_control = false;
  for (const VariantResult* variant : variants) {
    notes += Wrap(StalenessNote(*variant), "  ");
    notes += Wrap(BalanceNote(*variant), "  ");
    has_control = has_control || !variant->ranked();
  }
  if (has_control) notes += "  * control without synchronisation, never ranked\n";
  return notes;
}

}  // namespace lockstep
