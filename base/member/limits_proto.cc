#include "base/member/limits_proto.h"

#include "base/check.h"

namespace lockstep {

Limits LimitsFrom(const LimitsSpec& spec) {
  Limits limits;
  const auto* descriptor = spec.GetDescriptor();
  const auto* reflection = spec.GetReflection();
  for (const LimitRow& row : kLimitRows) {
    const auto* field = descriptor->FindFieldByName(row.name);
    CHECK(field != nullptr) << row.name;
    if (reflection->HasField(spec, field)) limits.*row.field = reflection->GetInt64(spec, field);
  }
  return limits;
}

}  // namespace lockstep
