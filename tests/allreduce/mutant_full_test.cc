// For the ring every single mutant is non-equivalent, and the verifier catches it. The larger n.
#include "absl/strings/str_cat.h"
#include "tests/allreduce/mutants.h"

namespace lockstep {
namespace {

class MutantTest : public testing::TestWithParam<int32_t> {};

TEST_P(MutantTest, IsNeverEquivalentAndTheVerifierCatchesIt) {
  ExpectEveryMutantCaught(GetParam());
}

std::string Name(const testing::TestParamInfo<int32_t>& info) {
  return absl::StrCat("Ranks", info.param);
}
INSTANTIATE_TEST_SUITE_P(Ring, MutantTest, testing::Range(6, 10), Name);

}  // namespace
}  // namespace lockstep
