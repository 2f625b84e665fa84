#include "experiments/cli/schedule_cost.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "allreduce/schedule/choose.h"
#include "allreduce/schedule/load.h"
#include "allreduce/schedule/simulate.h"
#include "base/byte_size.h"
#include "base/status.h"
#include "proto/cost.pb.h"

namespace lockstep {
namespace {

constexpr double kNsPerUs = 1e3;
constexpr double kBitsPerByte = 8;
constexpr size_t kSizesPerTable = 5;  // what fits in 80 columns
constexpr size_t kSizesMax = 40;

struct Unit {
  const char* name;
  int64_t bytes;
};
constexpr std::array kUnits = {Unit{"GiB", int64_t{1} << 30}, Unit{"MiB", int64_t{1} << 20},
                               Unit{"KiB", int64_t{1} << 10}, Unit{"B", 1}};

std::string Bytes(int64_t bytes) {
  for (const Unit& unit : kUnits) {
    if (bytes >= unit.bytes) {
      return absl::StrFormat(
          "%.4g %s", static_cast<double>(bytes) / static_cast<double>(unit.bytes), unit.name);
    }
  }
  return "0 B";
}

// Three digits: "1.42 ms", "88.0 ms", "150 us".
std::string Time(double ns) {
  double value = ns;
  const char* unit = "ns";
  for (const char* next : {"us", "ms", "s"}) {
    if (value < 999.5) break;
    value /= 1e3;
    unit = next;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return absl::StrFormat("%.*f %s", decimals, value, unit);
}

absl::StatusOr<std::vector<int64_t>> Sizes(const CostArguments& costs) {
  absl::StatusOr<std::vector<int64_t>> sizes = ParseSizes(costs.sizes);
  RETURN_IF_ERROR(Annotate(sizes.status(), "--sizes"));
  if (sizes->size() > kSizesMax) {
    return absl::InvalidArgumentError(absl::StrCat("--sizes: '", costs.sizes, "' are ",
                                                   sizes->size(), " sizes, at most ", kSizesMax));
  }
  return sizes;
}

absl::StatusOr<CostModel> ModelOf(const CostArguments& costs) {
  if (!(costs.latency_us >= 0 && costs.overhead_us >= 0 && costs.gbps > 0 && costs.gamma_ns >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--latency-us ", costs.latency_us, " --overhead-us ", costs.overhead_us, " --gbps ",
        costs.gbps, " --gamma-ns ", costs.gamma_ns, ": none may be negative, --gbps not 0 either"));
  }
  return CostModel{.latency_ns = costs.latency_us * kNsPerUs,
                   .overhead_ns = costs.overhead_us * kNsPerUs,
                   .beta_ns_per_byte = kBitsPerByte / costs.gbps,
                   .gamma_ns_per_byte = costs.gamma_ns};
}

// What the ranks send in all parts together, of S.
struct Sent {
  double least = 0;
  double most = 0;
  std::string ToString() const {  // "1.5 S", "1..3 S"
    const std::string from = absl::StrFormat("%.3g", least);
    const std::string to = absl::StrFormat("%.3g", most);
    return from == to ? absl::StrCat(to, " S") : absl::StrCat(from, "..", to, " S");
  }
};
absl::StatusOr<Sent> SentOf(const CostRow& row) {
  std::vector<double> sent;
  for (const ScheduleSpec& part : row.parts) {
    ASSIGN_OR_RETURN(const std::vector<RankLoad> loads, LoadsOf(part));
    sent.resize(std::max(sent.size(), loads.size()));
    for (size_t rank = 0; rank < loads.size(); ++rank) sent[rank] += loads[rank].sent;
  }
  const auto [least, most] = std::minmax_element(sent.begin(), sent.end());
  return Sent{*least, *most};
}

struct Formula {
  std::vector<std::string> terms;  // of each part; empty: none
  bool approximate = false;
};
Formula FormulaOf(const CostRow& row, const CostModel& cost) {
  Formula formula;
  for (const ScheduleSpec& part : row.parts) {
    const std::optional<ClosedForm> form = ClosedFormOf(part, cost, 1);
    if (!form.has_value()) return {};
    formula.terms.push_back(absl::StrCat(form->formula, form->approximate ? " (about)" : ""));
    formula.approximate = formula.approximate || form->approximate;
  }
  return formula;
}

// Rows x sizes, and what they come to.
class CostTable {
 public:
  CostTable(const ScheduleSpec& spec, const CostModel& cost, std::vector<CostRow> rows)
      : spec_(spec), cost_(cost), rows_(std::move(rows)) {}

  absl::Status Compute(const std::vector<int64_t>& sizes) {
    sizes_ = sizes;
    for (const CostRow& row : rows_) {
      costs_.emplace_back();
      for (const int64_t bytes : sizes) {
        ASSIGN_OR_RETURN(const RowCost cost, CostOf(row, cost_, bytes));
        costs_.back().push_back(cost);
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Shape() const {
    std::string text =
        absl::StrFormat("%-28s%9s%7s  %s\n", "", "messages", "chain", "each rank sends");
    for (size_t i = 0; i < rows_.size(); ++i) {
      ASSIGN_OR_RETURN(const Sent sent, SentOf(rows_[i]));
      absl::StrAppendFormat(&text, "%-28s%9d%7d  %s\n", rows_[i].name, costs_[i].front().messages,
                            costs_[i].front().chain, sent.ToString());
    }
    return text;
  }

  std::string Times(size_t first) const {
    std::string text = Line("", first, [&](size_t k) { return Bytes(sizes_[k]) + " "; });
    for (size_t i = 0; i < rows_.size(); ++i) {
      text += Line(rows_[i].name, first, [&](size_t k) {
        return absl::StrCat(Time(costs_[i][k].simulated_ns), Winner(k) == i ? "*" : " ");
      });
      if (!costs_[i].front().formula_ns.has_value()) continue;
      text += Line("  by formula", first,
                   [&](size_t k) { return Time(*costs_[i][k].formula_ns) + " "; });
    }
    return text + Line("no way is faster than", first,
                       [&](size_t k) { return Time(LowerBoundNs(spec_, cost_, sizes_[k])) + " "; });
  }

  // Which way wins from which size on, of those that run on these ranks alone.
  std::string Crossings() const {
    std::string text = "Fastest (*)\n";
    for (const auto& [from, i] : Fastest()) {
      absl::StrAppend(&text, "  from ", Bytes(from), ": ", rows_[i].name, "\n");
    }
    return text;
  }

  std::string Formulas() const {
    std::string text =
        "Formulas: alpha = L + o, latency and overhead; beta and gamma are of a byte\n";
    for (const CostRow& row : rows_) {
      const Formula formula = FormulaOf(row, cost_);
      absl::StrAppend(&text, "  ", row.name, ":\n    ",
                      formula.terms.empty() ? "none" : absl::StrJoin(formula.terms, "\n    + "),
                      "\n");
    }
    return text;
  }

  absl::Status Fill(CostFile* file) const {
    for (size_t i = 0; i < rows_.size(); ++i) {
      ASSIGN_OR_RETURN(const Sent sent, SentOf(rows_[i]));
      CostWay* way = file->add_ways();
      way->set_name(rows_[i].name);
      way->set_messages(static_cast<double>(costs_[i].front().messages));
      way->set_chain(static_cast<double>(costs_[i].front().chain));
      way->set_sent_least(sent.least);
      way->set_sent_most(sent.most);
      const Formula formula = FormulaOf(rows_[i], cost_);
      way->set_formula(absl::StrJoin(formula.terms, " + "));
      way->set_approximate(formula.approximate);
      for (size_t k = 0; k < sizes_.size(); ++k) {
        const std::optional<double>& formula_ns = costs_[i][k].formula_ns;
        CostTime* time = AddTime(k, costs_[i][k].simulated_ns, way->mutable_time());
        if (formula_ns.has_value()) time->set_formula_us(*formula_ns / kNsPerUs);
      }
    }
    for (size_t k = 0; k < sizes_.size(); ++k) {
      AddTime(k, LowerBoundNs(spec_, cost_, sizes_[k]), file->mutable_least());
    }
    for (const auto& [from, i] : Fastest()) {
      CostFastest* fastest = file->add_fastest();
      fastest->set_from_bytes(static_cast<double>(from));
      fastest->set_way(rows_[i].name);
    }
    return absl::OkStatus();
  }

 private:
  CostTime* AddTime(size_t k, double ns,
                    google::protobuf::RepeatedPtrField<CostTime>* times) const {
    CostTime* time = times->Add();
    time->set_bytes(static_cast<double>(sizes_[k]));
    time->set_simulated_us(ns / kNsPerUs);
    return time;
  }

  // [(bytes, row)]: who wins from there on.
  std::vector<std::pair<int64_t, size_t>> Fastest() const {
    std::vector<std::pair<int64_t, size_t>> fastest = {{sizes_[0], Winner(0)}};
    for (size_t k = 1; k < sizes_.size(); ++k) {
      const size_t now = fastest.back().second;
      const size_t next = Winner(k);
      if (next == now) continue;
      const std::optional<int64_t> crossing =
          CrossingBytes(spec_.world_size, rows_[now].parts[0].algorithm,
                        rows_[next].parts[0].algorithm, cost_, sizes_[k - 1], sizes_[k]);
      fastest.emplace_back(crossing.value_or(sizes_[k]), next);
    }
    return fastest;
  }

  template <typename CellOf>
  std::string Line(const std::string& name, size_t first, const CellOf& cell_of) const {
    std::string line = absl::StrFormat("%-28s", name);
    for (size_t k = first; k < std::min(first + kSizesPerTable, sizes_.size()); ++k) {
      absl::StrAppendFormat(&line, "%10s", cell_of(k));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line + "\n";
  }

  // A row that needs more hosts, or is no single algorithm, is no candidate.
  bool Competes(size_t i) const {
    return rows_[i].parts.size() == 1 && rows_[i].parts[0].world_size == spec_.world_size &&
           rows_[i].parts[0].algorithm != Algorithm::kPsExchange;
  }
  size_t Winner(size_t k) const {
    size_t best = 0;
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (!Competes(i)) continue;
      if (!Competes(best) || costs_[i][k].simulated_ns < costs_[best][k].simulated_ns) best = i;
    }
    return best;
  }

  const ScheduleSpec spec_;
  const CostModel cost_;
  const std::vector<CostRow> rows_;
  std::vector<int64_t> sizes_;
  std::vector<std::vector<RowCost>> costs_;  // [row][size]
};

}  // namespace

std::vector<CostRow> CostRows(const ScheduleSpec& spec, bool servers_given) {
  std::vector<CostRow> rows;
  ScheduleSpec plain = spec;
  plain.servers = 0;
  plain.placement = Placement::kSpare;
  plain.group_size = 0;
  for (const Algorithm algorithm : AlgorithmsOf(Collective::kAllReduce)) {
    if (algorithm == Algorithm::kPsExchange) continue;
    ScheduleSpec one = plain;
    one.algorithm = algorithm;
    if (algorithm == Algorithm::kHierarchical) one.group_size = spec.group_size;
    rows.push_back({NameOf(algorithm), {one}});
  }
  const auto both = [&](Collective first, Collective second, Algorithm algorithm) {
    ScheduleSpec a = plain;
    a.algorithm = algorithm;
    a.collective = first;
    ScheduleSpec b = a;
    b.collective = second;
    rows.push_back({absl::StrCat(NameOf(first), " + ", NameOf(second)), {a, b}});
  };
  both(Collective::kReduce, Collective::kBroadcast, Algorithm::kTree);
  both(Collective::kReduceScatter, Collective::kAllGather, Algorithm::kRing);
  const auto servers = [&](Placement placement, int32_t count) {
    ScheduleSpec one = plain;
    one.algorithm = Algorithm::kPsExchange;
    one.placement = placement;
    one.servers = count;
    if (placement != Placement::kColocated) one.world_size += count;
    rows.push_back({absl::StrCat("ps_exchange, ", count, " ", NameOf(placement)), {one}});
  };
  if (servers_given) {
    servers(spec.placement, spec.servers);
  } else {
    servers(Placement::kColocated, spec.world_size);
    servers(Placement::kSpare, 1);
    servers(Placement::kSpare, spec.world_size);
  }
  return rows;
}

absl::StatusOr<RowCost> CostOf(const CostRow& row, const CostModel& cost, int64_t bytes) {
  RowCost sum;
  sum.formula_ns = 0;
  for (const ScheduleSpec& part : row.parts) {
    ASSIGN_OR_RETURN(const Simulation one, Simulate(part, {.cost = cost, .bytes = bytes}));
    sum.simulated_ns += one.time_ns;
    sum.messages += one.messages;
    sum.chain += one.chain;
    const std::optional<ClosedForm> form = ClosedFormOf(part, cost, bytes);
    if (form.has_value() && sum.formula_ns.has_value()) {
      *sum.formula_ns += form->time_ns;
    } else {
      sum.formula_ns.reset();
    }
  }
  return sum;
}

absl::StatusOr<std::string> RenderCosts(const ScheduleArguments& arguments,
                                        const CostArguments& costs) {
  if (arguments.collective.has_value() || arguments.root.has_value()) {
    return absl::InvalidArgumentError(
        "cost compares ways to all_reduce; it takes no --collective and no --root");
  }
  ASSIGN_OR_RETURN(const ScheduleSpec spec, SpecOf(arguments));
  ASSIGN_OR_RETURN(const CostModel cost, ModelOf(costs));
  ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, Sizes(costs));
  CostTable table(spec, cost, CostRows(spec, arguments.servers.has_value()));
  RETURN_IF_ERROR(table.Compute(sizes));
  if (costs.json) {
    CostFile file;
    file.set_ranks(spec.world_size);
    file.set_latency_us(costs.latency_us);
    file.set_overhead_us(costs.overhead_us);
    file.set_gbps(costs.gbps);
    file.set_gamma_ns(costs.gamma_ns);
    RETURN_IF_ERROR(table.Fill(&file));
    return ToJson(file, kCostJson);
  }
  ASSIGN_OR_RETURN(const std::string shape, table.Shape());
  std::string text = absl::StrFormat(
      "Modelled, not measured: all_reduce of S bytes on %d ranks, links of %g Gbit/s in\n"
      "each direction, latency %g us, overhead %g us a message, adding %g ns a byte.\n",
      spec.world_size, costs.gbps, costs.latency_us, costs.overhead_us, costs.gamma_ns);
  if (spec.world_size == 1) text += "One rank moves nothing: none of these settings is used.\n";
  absl::StrAppend(&text, "\nFor S = ", Bytes(sizes[0]), "\n", shape);
  for (size_t first = 0; first < sizes.size(); first += kSizesPerTable) {
    absl::StrAppend(&text, "\nTime, simulated\n", table.Times(first));
  }
  absl::StrAppend(&text, "\n", table.Crossings(),
                  "(ps_exchange does not compete: spare servers are hosts of their own)\n\n",
                  table.Formulas());
  return text;
}

}  // namespace lockstep
