#include "experiments/cli/host.h"

#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "allreduce/transport/tcp.h"

namespace lockstep {
namespace {

std::string CpuName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (absl::StartsWith(line, "model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown";
}

std::string SystemName() {
  std::string name = "Linux";
  std::ifstream file("/etc/os-release");
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, "PRETTY_NAME=\"")) name = line.substr(13, line.size() - 14);
  }
  utsname kernel{};
  return uname(&kernel) == 0 ? absl::StrCat(name, ", kernel ", kernel.release) : name;
}

}  // namespace

int UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

HostWatch::HostWatch() : start_(ReadCpuTime()) { Sample(); }

void HostWatch::Sample() { loadavg_max_ = std::max(loadavg_max_, ReadLoadAverage()); }

HostInfo HostWatch::Describe(int processes) const {
  constexpr double kBusy =
      0.8;  // of all cores: above it the processor, not the links, sets the pace
  const CpuTime now = ReadCpuTime();
  HostInfo host;
  host.set_cpu(CpuName());
  host.set_cores(UsableCores());
  host.set_os(SystemName());
  if (now.total > start_.total) {
    host.set_cpu_busy(static_cast<double>(now.busy - start_.busy) /
                      static_cast<double>(now.total - start_.total));
  }
  host.set_loadavg_max(loadavg_max_);
  host.set_congestion_control(TcpCongestionControl());
  host.set_cpu_bound(processes > host.cores() || host.cpu_busy() > kBusy);
  return host;
}

HostWatch::CpuTime HostWatch::ReadCpuTime() {
  // "cpu user nice system idle iowait irq softirq steal ...": all but idle and iowait is work.
  std::ifstream file("/proc/stat");
  std::string label;
  file >> label;
  CpuTime time;
  constexpr int kColumns = 8;
  for (int column = 0; column < kColumns; ++column) {
    int64_t ticks = 0;
    file >> ticks;
    time.total += ticks;
    if (column != 3 && column != 4) time.busy += ticks;
  }
  return time;
}

double HostWatch::ReadLoadAverage() {
  std::ifstream file("/proc/loadavg");
  double load = 0;
  file >> load;
  return load;
}

}  // namespace lockstep
