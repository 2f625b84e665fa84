// report.h: what a check found: JSON for a file (a lockstep.bench/1, GpuBenchFile of
// proto/bench.proto), a short table for a terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "allreduce/cuda/arena.h"
#include "allreduce/cuda/device.h"

namespace lockstep::gpu {

// One kernel at one size; times of single launches, in microseconds.
struct TimeRow {
  KernelSpec spec;
  int threads = 0;
  int devices = 1;
  int64_t bytes = 0;  // of each rank
  double p50_us = 0;
  double p99_us = 0;
  double min_us = 0;
  std::optional<bool> correct = {};  // every element of one more call; unset: too long to compare
};

struct CheckReport {
  DriverState driver;
  std::string nccl;  // version and path, or why there is none
  DeviceInfo device;
  int devices = 0;
  double roof_gb_s = 0;        // read plus written by the device's own copy
  double empty_launch_us = 0;  // cooperative, of blocks that do nothing
  int64_t cases = 0;           // of correctness
  std::vector<std::string> wrong;
  std::vector<TimeRow> best;  // [size, kernel]: the sweep's best settings
  std::vector<std::string> notes;
  double seconds = 0;
};

// Of a launch whose bytes are the least that an all-reduce on one memory can move.
double LightPercent(const CheckReport& report, const TimeRow& row);

void PrintJson(const CheckReport& report, std::ostream& out);
void PrintTable(const CheckReport& report, std::ostream& out);

}  // namespace lockstep::gpu
