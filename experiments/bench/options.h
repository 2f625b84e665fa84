// options.h: what `lockstep bench allreduce` was asked for, read and checked. Sizes as in
// nccl-tests: FROM:TO:FACTOR, or a list. Errors: InvalidArgument, saying what is wrong and what
// would be right. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/byte_size.h"
#include "base/numeric/dtype.h"

namespace lockstep {

// As typed.
struct BenchArguments {
  std::string sizes = "4:64MiB:4";
  std::string ranks = "2,4,8";
  std::string algorithms;  // empty: those below, a link
  std::string links = "tcp,shm";
  std::string peers = "mpi,gloo";  // also nccl, cuda
  std::string nccl_library;        // empty: libnccl.so.2
  std::string dtype = "f32";
  std::string op = "sum";
  int warmup = 2;
  int rounds = 9;
  double seconds = 60;
  std::string channels = "1,2";
  int servers = 1;
  int64_t timeout_ms = 30'000;
  std::string congestion;  // empty: the system's
  std::string csv;         // file
  bool json = false;
  bool quick = false;
};

struct BenchOptions {
  std::vector<int64_t> bytes;  // ascending, whole elements
  std::vector<int> ranks;
  std::vector<std::string> tcp_algorithms;  // of the host engine
  std::vector<std::string> shm_algorithms;
  std::vector<std::string> links;
  std::vector<std::string> peers;
  std::vector<std::string> mpi_algorithms;
  std::vector<int> mpi_connections;  // a pair of ranks, over TCP
  std::vector<std::string> gloo_algorithms;
  std::vector<std::string> nccl_algorithms;  // NCCL_ALGO; "": its own choice
  std::vector<std::string> cuda_algorithms;
  std::string nccl_library;
  Dtype dtype = Dtype::kF32;
  ReduceOp op = ReduceOp::kSum;
  int warmup = 2;
  int rounds = 9;
  double seconds = 60;        // a size: no further round begins after that
  std::vector<int> channels;  // connections a pair of our ranks has over TCP, each a contestant
  int servers = 1;
  int64_t timeout_ms = 30'000;
  int64_t turn_ms = 40;  // about so long one contestant measures before the next has its turn
};

absl::StatusOr<BenchOptions> ReadOptions(const BenchArguments& arguments);

}  // namespace lockstep
