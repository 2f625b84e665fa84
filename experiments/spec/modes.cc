#include "absl/strings/str_cat.h"
#include "experiments/spec/checker.h"

namespace lockstep {
namespace {

// R41: settings of one mode beside another mode are refused, naming both.
void CheckPs(const Checker& check) {
  for (int i = 0; i < check.experiment.variant_size(); ++i) {
    if (!check.experiment.variant(i).has_ps()) continue;
    const Ps& ps = check.experiment.variant(i).ps();
    const std::string path = JoinPath(IndexedPath("variant", i), "ps");
    const std::string mode = Ps::Mode_Name(ps.mode());
    if (ps.has_staleness() && ps.mode() != Ps::BOUNDED) {
      check.Error(JoinPath(path, "staleness"),
                  absl::StrCat("conflicts with mode ", mode,
                               ": only mode BOUNDED reads it, and that is not "
                               "built yet; remove staleness"));
    }
    if (ps.has_k() && ps.mode() != Ps::K_OF_N) {
      check.Error(JoinPath(path, "k"), absl::StrCat("conflicts with mode ", mode,
                                                    ": only mode K_OF_N reads it, "
                                                    "and that is not built yet; remove k"));
    }
    if (ps.has_rate() && ps.mode() != Ps::ASYNC) {
      check.Error(JoinPath(path, "rate"),
                  absl::StrCat("conflicts with mode ", mode,
                               ": only mode ASYNC divides the learning rate; remove rate"));
    }
  }
}

void CheckAllReduce(const Checker& check) {
  for (int i = 0; i < check.experiment.variant_size(); ++i) {
    const AllReduceSync& all_reduce = check.experiment.variant(i).all_reduce();
    const bool sums = all_reduce.algorithm() == AllReduceSync::PS_EXCHANGE;
    if (all_reduce.servers_size() == 0 || sums) continue;
    check.Error(JoinPath(JoinPath(IndexedPath("variant", i), "all_reduce"), "servers"),
                absl::StrCat("conflicts with algorithm ",
                             AllReduceSync::Algorithm_Name(all_reduce.algorithm()),
                             ": only PS_EXCHANGE has ranks that only sum; remove servers"));
  }
}

// What goes over the links is f32, except where a collective carries something else.
void CheckWireDtype(const Checker& check) {
  const Experiment& experiment = check.experiment;
  const DtypeSpec dtype = experiment.wire_dtype_size() > 0 ? experiment.wire_dtype(0) : F32;
  if (dtype == F32) return;
  constexpr char kPath[] = "wire_dtype[0]";
  for (int i = 0; i < experiment.variant_size(); ++i) {
    const Variant& variant = experiment.variant(i);
    if (!variant.has_ps()) continue;
    check.Error(kPath, absl::StrCat(DtypeSpec_Name(dtype), " conflicts with ",
                                    IndexedPath("variant", i), " \"", variant.name(),
                                    "\": a parameter server speaks F32; write F32, or leave that "
                                    "variant out, as with --only"));
  }
  if (dtype == F64 && experiment.reduction_order() == EXACT) {
    check.Error(kPath,
                "F64 conflicts with reduction_order EXACT, which sums F32, F16 and BF16; write "
                "another type, or reduction_order ENGINE");
  }
}

}  // namespace

void CheckModes(const Checker& check) {
  CheckPs(check);
  CheckAllReduce(check);
  CheckWireDtype(check);
}

}  // namespace lockstep
