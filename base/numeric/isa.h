// isa.h: which vector instructions a numeric loop may use. Results are the same bits for each.
#pragma once

namespace lockstep {

enum class Isa { kBaseline, kAvx2, kAvx512 };

// The widest one this processor has. Thread-safe.
Isa BestIsa();
bool Supported(Isa isa);
const char* NameOf(Isa isa);  // "baseline", "avx2", "avx512"

}  // namespace lockstep
