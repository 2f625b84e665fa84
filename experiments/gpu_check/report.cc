#include "experiments/gpu_check/report.h"

#include <cstdio>

namespace lockstep::gpu {
namespace {

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return quoted + "\"";
}

std::string List(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) list += (list.empty() ? "" : ", ") + Quoted(text);
  return "[" + list + "]";
}

double AlgBandwidth(const TimeRow& row) {  // GB/s
  return row.p50_us > 0 ? static_cast<double>(row.bytes) / row.p50_us / 1e3 : 0;
}

}  // namespace

double LightPercent(const CheckReport& report, const TimeRow& row) {
  const double moved = 2.0 * row.spec.world_size * static_cast<double>(row.bytes);
  return report.roof_gb_s > 0 && row.p50_us > 0
             ? 100 * moved / (report.roof_gb_s * 1e3) / row.p50_us
             : 0;
}

namespace {

void PrintRow(const CheckReport& report, const TimeRow& row, std::ostream& out) {
  const double ranks = row.spec.world_size;
  out << "{\"engine\": \"cuda\", \"algorithm\": " << Quoted(NameOf(row.spec.kernel))
      << ", \"link\": \"gpu\", \"ranks\": " << row.spec.world_size
      << ", \"devices\": " << row.devices << ", \"bytes\": " << row.bytes
      << ", \"dtype\": \"f32\", \"op\": \"sum\", \"channels\": " << row.spec.channels
      << ", \"threads\": " << row.threads << ", \"slots\": " << row.spec.slots
      << ", \"slot_bytes\": " << row.spec.slot_bytes
      << ", \"time_us\": {\"p50\": " << Number(row.p50_us) << ", \"p99\": " << Number(row.p99_us)
      << ", \"min\": " << Number(row.min_us) << "}, \"algbw_gb_s\": " << Number(AlgBandwidth(row))
      << ", \"light_percent\": " << Number(LightPercent(report, row));
  if (row.devices > 1) {  // on one GPU no connection carries it
    out << ", \"busbw_gb_s\": " << Number(AlgBandwidth(row) * 2 * (ranks - 1) / ranks);
  }
  if (row.correct.has_value()) out << ", \"correct\": " << (*row.correct ? "true" : "false");
  out << "}";
}

}  // namespace

void PrintJson(const CheckReport& report, std::ostream& out) {
  out << "{\"schema\": \"lockstep.bench/1\",\n \"driver\": " << report.driver.driver
      << ", \"runtime\": " << report.driver.runtime << ", \"nccl\": " << Quoted(report.nccl)
      << ",\n \"device\": {\"name\": " << Quoted(report.device.name)
      << ", \"count\": " << report.devices
      << ", \"multiprocessors\": " << report.device.multiprocessors
      << ", \"memory_bytes\": " << report.device.memory_bytes
      << ", \"l2_bytes\": " << report.device.l2_bytes
      << "},\n \"copy_roof_gb_s\": " << Number(report.roof_gb_s)
      << ", \"empty_launch_us\": " << Number(report.empty_launch_us)
      << ",\n \"correctness\": {\"cases\": " << report.cases
      << ", \"wrong\": " << List(report.wrong) << "},\n \"notes\": " << List(report.notes)
      << ", \"duration_s\": " << Number(report.seconds) << ",\n \"rows\": [";
  const char* separator = "\n  ";
  for (const TimeRow& row : report.best) {
    out << separator;
    PrintRow(report, row, out);
    separator = ",\n  ";
  }
  out << "\n ]}\n";
}

void PrintTable(const CheckReport& report, std::ostream& out) {
  char line[160];
  out << report.device.name << ", " << report.devices << " GPU(s), copy roof "
      << Number(report.roof_gb_s) << " GB/s read and written, empty cooperative launch "
      << Number(report.empty_launch_us) << " us\n";
  out << "correctness: " << report.cases << " cases, " << report.wrong.size() << " wrong\n";
  for (const std::string& wrong : report.wrong) out << "  WRONG " << wrong << "\n";
  std::snprintf(line, sizeof(line), "%-12s %5s %4s %12s %3s %4s %5s %8s %10s %10s %7s\n", "kernel",
                "ranks", "GPUs", "bytes/rank", "C", "T", "slots", "slot", "p50 us", "algbw GB/s",
                "light %");
  out << line;
  for (const TimeRow& row : report.best) {
    std::snprintf(line, sizeof(line),
                  "%-12s %5d %4d %12lld %3d %4d %5d %8lld %10.1f %10.1f %7.1f\n",
                  NameOf(row.spec.kernel), row.spec.world_size, row.devices,
                  static_cast<long long>(row.bytes), row.spec.channels, row.threads, row.spec.slots,
                  static_cast<long long>(row.spec.slot_bytes), row.p50_us, AlgBandwidth(row),
                  LightPercent(report, row));
    out << line;
  }
  for (const std::string& note : report.notes) out << "note: " << note << "\n";
}

}  // namespace lockstep::gpu
