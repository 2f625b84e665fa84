#include "experiments/analyse/bits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/analyse/run_files.h"

namespace lockstep {
namespace {

using synthetic::Find;
using synthetic::MakeVariant;
using synthetic::QuickstartFile;
using ::testing::ElementsAre;

VariantResult Way(const std::string& id, const std::string& hash, const std::string& order = "") {
  VariantResult variant = MakeVariant(id, "all_reduce", 1);
  variant.set_final_hash(hash);
  variant.set_addition_order(order);
  return variant;
}

TEST(GroupByBits, PutsEqualHashesTogether) {
  const VariantResult naive = Way("naive", "a");
  const VariantResult ring = Way("ring", "b");
  const VariantResult ps = Way("ps_schedule", "a");
  const std::vector<BitsGroup> groups = GroupByBits({&naive, &ring, &ps});
  EXPECT_THAT(groups, ElementsAre(ElementsAre(&naive, &ps), ElementsAre(&ring)));
}

struct Excluded {
  const char* name;
  void (*change)(VariantResult* variant);
};
class NotGrouped : public ::testing::TestWithParam<Excluded> {};

TEST_P(NotGrouped, IsLeftOut) {
  const VariantResult naive = Way("naive", "a");
  VariantResult other = Way("other", "a");
  GetParam().change(&other);
  const std::vector<BitsGroup> groups = GroupByBits({&naive, &other});
  EXPECT_THAT(groups[0], ElementsAre(&naive));
}

constexpr Excluded kExcluded[] = {
    {"unfinished", [](VariantResult* v) { v->set_complete(false); }},
    {"asynchronous", [](VariantResult* v) { v->set_mode("ps_async"); }},
    {"control", [](VariantResult* v) { v->set_mode("none"); }},
    {"without_a_hash", [](VariantResult* v) { v->clear_final_hash(); }},
    {"of_another_size", [](VariantResult* v) { v->set_workers(3); }},
};
INSTANTIATE_TEST_SUITE_P(All, NotGrouped, ::testing::ValuesIn(kExcluded),
                         [](const auto& test) { return std::string(test.param.name); });

struct Promise {
  const char* name;
  void (*change)(RunFile* run);
  bool conflict;
};
class Conflict : public ::testing::TestWithParam<Promise> {};

// ps_sync and ring ended with different bits.
TEST_P(Conflict, NeedsAPromise) {
  RunFile run = QuickstartFile();
  GetParam().change(&run);
  EXPECT_EQ(FindBitsConflict(run).has_value(), GetParam().conflict);
}

void SameOrder(RunFile* run) {
  Find(run, "ring")->set_addition_order("((0+1)+2)+3");
  Find(run, "ps_sync")->set_addition_order("((0+1)+2)+3");
}
void Exact(RunFile* run) { run->mutable_experiment()->set_reduction_order("exact"); }

constexpr Promise kPromises[] = {
    {"none", [](RunFile*) {}, false},
    {"same_order", SameOrder, true},
    {"other_order",
     [](RunFile* run) {
       SameOrder(run);
       Find(run, "ring")->set_addition_order("(0+1)+(2+3)");
     },
     false},
    {"exact", Exact, true},
    {"exact_and_equal",
     [](RunFile* run) {
       Exact(run);
       Find(run, "ring")->set_final_hash(Find(run, "ps_sync")->final_hash());
     },
     false},
    {"exact_asynchronous",
     [](RunFile* run) {
       Exact(run);
       Find(run, "ps_sync")->set_mode("ps_async");
     },
     false},
    {"exact_unfinished",
     [](RunFile* run) {
       Exact(run);
       Find(run, "ring")->set_complete(false);
     },
     false},
    {"other_size",
     [](RunFile* run) {
       SameOrder(run);
       Find(run, "ring")->set_workers(3);
     },
     false},
};
INSTANTIATE_TEST_SUITE_P(All, Conflict, ::testing::ValuesIn(kPromises),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lockstep
