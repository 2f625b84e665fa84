// rules.h: the rules behind a verdict, in three tables; verdict.h tries them in order.
// Each rule has a guard of its own and says no more than its guard has seen. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiments/analyse/claims.h"

namespace lockstep {

struct RuleText {
  std::string head;
  std::vector<std::string> why;  // sentences without their full stop; empty ones are dropped
};
struct Rule {
  const char* name;
  bool (*holds)(const Evidence& evidence);
  RuleText (*text)(const Evidence& evidence);
};

std::span<const Rule> StoppedRules();  // the run did not reach its end
std::span<const Rule> PromiseRules();  // a promise was broken (exit code 1)
std::span<const Rule> SpeedRules();    // who is faster, or why that is withheld; the last one holds

std::string Capitalised(std::string text);

}  // namespace lockstep
