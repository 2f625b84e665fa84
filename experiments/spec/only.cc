#include "experiments/spec/only.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep {
namespace {

constexpr char kVariant[] = "variant";

}  // namespace

void KeepOnly(const std::vector<std::string>& names, Experiment* experiment, Places* places,
              std::vector<SpecError>* errors) {
  if (names.empty()) return;
  std::vector<std::string> known;
  google::protobuf::RepeatedPtrField<Variant> kept;
  for (int i = 0; i < experiment->variant_size(); ++i) {
    const Variant& variant = experiment->variant(i);
    known.push_back(variant.name());
    const std::string path = IndexedPath(kVariant, i);
    if (std::find(names.begin(), names.end(), variant.name()) == names.end()) {
      places->Erase(path);
      continue;
    }
    places->Move(path, IndexedPath(kVariant, kept.size()));
    *kept.Add() = variant;
  }
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    errors->push_back({.place = {.file = absl::StrCat("--only ", name)},
                       .message = absl::StrCat("the spec has no such variant; it has ",
                                               absl::StrJoin(known, ", "))});
    return;  // what is left of the others would be called wrong
  }
  *experiment->mutable_variant() = std::move(kept);
}

}  // namespace lockstep
