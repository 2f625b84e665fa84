// scoped_variable.h: an environment variable that is set as long as this object lives. Threads:
// one, while no other reads the environment.
#pragma once

#include <cstdlib>

namespace lockstep {

class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    setenv(name, value, /*overwrite=*/1);
  }
  ~ScopedVariable() { unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* const name_;
};

}  // namespace lockstep
