// tcp_hello.h: how two ends of a new TCP connection prove to each other that they belong together.
// Each end sends one Hello and then the token; both must agree on everything but the rank. Sizes
// are checked before anything is read into them. Pure encoding and checks, no I/O.
#pragma once

#include <cstdint>
#include <string>

#include "allreduce/transport/tcp.h"

namespace lockstep {

inline constexpr uint32_t kHelloMagic = 0x4C'53'48'31;  // "LSH1"
inline constexpr uint32_t kHelloVersion = 1;
inline constexpr int32_t kControlChannel = -1;

struct Hello {
  uint32_t magic = kHelloMagic;
  uint32_t version = kHelloVersion;
  int64_t epoch = 0;
  int32_t world_size = 0;
  int32_t rank = 0;
  int32_t channel = 0;  // kControlChannel or 0..channels - 1
  uint32_t token_bytes = 0;
};
static_assert(sizeof(Hello) == 32, "no padding: sent as bytes");

// This rank's hello for a connection of `channel`, followed by the token.
std::string EncodeHello(const TcpGroup& group, int32_t channel);

// Is the fixed part one of our group, from another rank and for a channel we have? Says nothing
// about the token.
bool HelloFits(const TcpGroup& group, const Hello& hello);

// Compares in time that doesn't depend on where the texts differ.
bool TokensEqual(const std::string& a, const std::string& b);

}  // namespace lockstep
