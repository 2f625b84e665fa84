// effect.h: what the caller of Membership has to do. Plain data. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "experiments/coordinator/first_cause.h"
#include "proto/coordinator.pb.h"

namespace lockstep {

struct Effect {
  enum class Kind { kSend, kClose, kLine, kSpawn, kManifest };
  Kind kind = Kind::kSend;
  int64_t session = 0;    // kSend, kClose
  Command command = {};   // kSend
  std::string line = {};  // kLine: for the user; kManifest: its whole text
  MemberId member = {};   // kSpawn: start a process for it

  static Effect Send(int64_t session, Command command) {
    Effect effect{.kind = Kind::kSend, .session = session};
    effect.command = std::move(command);
    return effect;
  }
  static Effect Close(int64_t session) { return {.kind = Kind::kClose, .session = session}; }
  static Effect Line(std::string line) {
    Effect effect{.kind = Kind::kLine};
    effect.line = std::move(line);
    return effect;
  }
  static Effect Manifest(std::string text) {
    Effect effect{.kind = Kind::kManifest};
    effect.line = std::move(text);
    return effect;
  }
  static Effect Spawn(const MemberId& member) {
    Effect effect{.kind = Kind::kSpawn};
    effect.member = member;
    return effect;
  }
};

}  // namespace lockstep
