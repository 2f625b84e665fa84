#include "allreduce/transport/tcp_hello.h"

#include <cstring>

namespace lockstep {

std::string EncodeHello(const TcpGroup& group, int32_t channel) {
  Hello hello;
  hello.epoch = group.epoch;
  hello.world_size = static_cast<int32_t>(group.endpoints.size());
  hello.rank = group.rank;
  hello.channel = channel;
  hello.token_bytes = static_cast<uint32_t>(group.token.size());
  std::string bytes(sizeof(hello), '\0');
  std::memcpy(bytes.data(), &hello, sizeof(hello));
  return bytes + group.token;
}

bool HelloFits(const TcpGroup& group, const Hello& hello) {
  const auto world_size = static_cast<int32_t>(group.endpoints.size());
  return hello.magic == kHelloMagic && hello.version == kHelloVersion &&
         hello.epoch == group.epoch && hello.world_size == world_size && hello.rank >= 0 &&
         hello.rank < world_size && hello.rank != group.rank && hello.channel >= kControlChannel &&
         hello.channel < group.channels && hello.token_bytes == group.token.size();
}

bool TokensEqual(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

}  // namespace lockstep
