#include "experiments/bench/cell.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "experiments/analyse/statistics.h"

namespace lockstep {
namespace {

constexpr double kNsPerUs = 1e3;
constexpr double kNsPerCpuMs = 1e6;

}  // namespace

double Cell::p50_us() const { return Quantile(samples_us, 0.5); }

std::string Cell::Label() const {
  return absl::StrCat(algorithm, setting.empty() ? "" : ", ", setting);
}

std::optional<double> BusFactor(int ranks) {
  if (ranks < 2) return std::nullopt;
  return 2.0 * (ranks - 1) / ranks;
}

void AddRound(const std::vector<TurnReport>& reports, Cell* cell) {
  const size_t operations = reports[0].times_ns.size();
  std::vector<double> round_us;
  for (size_t i = 0; i < operations; ++i) {
    double sum_ns = 0;
    for (const TurnReport& report : reports) sum_ns += static_cast<double>(report.times_ns[i]);
    round_us.push_back(sum_ns / static_cast<double>(reports.size()) / kNsPerUs);
  }
  cell->samples_us.insert(cell->samples_us.end(), round_us.begin(), round_us.end());
  cell->rounds_us.push_back(Quantile(round_us, 0.5));
  for (const TurnReport& report : reports) cell->cpu_ns += static_cast<double>(report.cpu_ns);
  cell->operations += static_cast<int64_t>(operations);
  if (cell->link == "tcp") cell->congestion = reports[0].congestion;  // else only of control
  cell->choice = reports[0].choice;
  cell->sent = SentByRole(reports, cell->ranks, cell->servers);
}

void AddCheck(const std::vector<TurnReport>& reports, Cell* cell) {
  cell->checked = true;
  for (const TurnReport& report : reports) cell->correct = cell->correct && report.correct;
}

std::vector<BenchSent> SentByRole(const std::vector<TurnReport>& reports, int ranks, int servers) {
  std::vector<BenchSent> all;
  int first = 0;  // of the present group
  for (int rank = 0; rank < static_cast<int>(reports.size()); ++rank) {
    const TurnReport& report = reports[static_cast<size_t>(rank)];
    if (report.sent_bytes < 0) return {};
    const std::string role = servers == 0 ? "rank" : rank < ranks ? "worker" : "server";
    const double bytes = std::round(report.sent_bytes);
    if (all.empty() || all.back().role() != role || all.back().bytes() != bytes ||
        (all.back().has_messages() && all.back().messages() != report.sent_messages)) {
      first = rank;
      BenchSent& sent = all.emplace_back();
      sent.set_role(role);
      sent.set_bytes(bytes);
      if (report.sent_messages >= 0) sent.set_messages(report.sent_messages);
    }
    all.back().set_ranks(first == rank ? absl::StrCat(rank) : absl::StrCat(first, "-", rank));
  }
  return all;
}

BenchRow RowOf(const Cell& cell) {
  BenchRow row;
  row.set_engine(cell.engine);
  row.set_algorithm(cell.algorithm);
  row.set_link(cell.link);
  row.set_ranks(cell.ranks);
  row.set_servers(cell.servers);
  row.set_bytes(static_cast<double>(cell.bytes));
  row.set_dtype(NameOf(cell.dtype));
  row.set_op(NameOf(cell.op));
  BenchTimes& times = *row.mutable_time_us();
  times.set_p50(cell.p50_us());
  times.set_p99(Quantile(cell.samples_us, 0.99));
  times.set_p10(Quantile(cell.samples_us, 0.1));
  times.set_p90(Quantile(cell.samples_us, 0.9));
  times.set_min(*std::min_element(cell.samples_us.begin(), cell.samples_us.end()));
  times.set_samples(static_cast<int32_t>(cell.samples_us.size()));
  times.set_rounds(static_cast<int32_t>(cell.rounds_us.size()));
  row.set_algbw_gb_s(static_cast<double>(cell.bytes) / (cell.p50_us() * kNsPerUs));
  if (const std::optional<double> factor = BusFactor(cell.ranks)) {
    row.set_busbw_gb_s(row.algbw_gb_s() * *factor);
  }
  row.set_cpu_ms_per_op(cell.cpu_ns / static_cast<double>(cell.operations) / kNsPerCpuMs);
  row.set_correct(cell.checked && cell.correct);
  row.set_setting(cell.setting);
  row.set_version(cell.version);
  row.set_congestion_control(cell.congestion);
  row.set_choice(cell.choice);
  for (const BenchSent& sent : cell.sent) *row.add_sent() = sent;
  return row;
}

}  // namespace lockstep
