#include "experiments/spec/spec.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "experiments/spec/bind.h"
#include "experiments/spec/only.h"
#include "experiments/spec/outline.h"
#include "experiments/spec/override.h"
#include "experiments/spec/validate.h"

namespace lockstep {
namespace {

std::vector<Override> Overrides(const SpecOptions& options) {
  std::vector<Override> overrides;
  for (const std::string& set : options.set) {
    overrides.push_back({.assignment = set, .shown = absl::StrCat("--set ", set)});
  }
  if (options.blocks.has_value()) {
    const std::string path = "blocks=";
    overrides.push_back({.assignment = path + *options.blocks,
                         .shown = absl::StrCat("--blocks ", *options.blocks),
                         .hidden_characters = static_cast<int>(path.size())});
  }
  return overrides;
}

// Quick values are smaller than any that Validate refuses, so they hide no error: they come after
// it. It is asked again all the same: a fault may now lie behind the last step.
void MakeQuick(bool keep_blocks, Experiment* experiment) {
  if (!keep_blocks) experiment->set_blocks(kQuickBlocks);
  Train* train = experiment->mutable_train();
  train->set_steps(std::min(train->steps(), kQuickStepsMax));
}

// The text in its order, then the command line in its own.
void SortErrors(const std::vector<Override>& overrides, std::vector<SpecError>* errors) {
  std::map<std::string, int> order;  // of the options; 0 for the text
  for (const Override& option : overrides) {
    order.emplace(option.shown, static_cast<int>(order.size()) + 1);
  }
  const auto key = [&order](const SpecError& error) {
    const auto option = order.find(error.place.file);
    const int rank = error.place.line > 0 || option == order.end() ? 0 : option->second;
    return std::make_tuple(rank, error.place.line, error.place.column);
  };
  std::stable_sort(errors->begin(), errors->end(),
                   [&](const SpecError& a, const SpecError& b) { return key(a) < key(b); });
}

// 1202 is "1,202".
std::string Grouped(size_t number) {
  std::string text = absl::StrCat(number);
  for (size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, 1, ',');
  return text;
}

// Some editors write it.
std::string WithoutByteOrderMark(const std::string& text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.compare(0, kMark.size(), kMark) == 0 ? text.substr(kMark.size()) : text;
}

}  // namespace

absl::Status LoadedSpec::status() const {
  if (errors.empty()) return absl::OkStatus();
  std::string message = absl::StrCat("spec ", display_name, ": ", Grouped(errors.size()),
                                     errors.size() == 1 ? " error" : " errors");
  const size_t shown = std::min(errors.size(), kErrorsShownMax);
  for (size_t i = 0; i < shown; ++i) absl::StrAppend(&message, "\n", errors[i].ToString());
  if (shown < errors.size()) {
    absl::StrAppend(&message, "\n... and ", Grouped(errors.size() - shown), " more");
  }
  return absl::InvalidArgumentError(message);
}

LoadedSpec LoadSpec(const SpecText& spec, const SpecOptions& options) {
  LoadedSpec loaded{.display_name = spec.display_name};
  if (!spec.note.empty()) loaded.notes.push_back({.place = {}, .message = spec.note});
  Places places(spec.display_name);
  const Outline outline = ReadFields(WithoutByteOrderMark(spec.text));
  Binder binder({.file = spec.display_name}, &places, &loaded.errors);
  binder.SyntaxErrors(outline.errors);
  binder.BindFields(outline.fields, "", &loaded.experiment);
  const std::vector<Override> overrides = Overrides(options);
  for (const Override& option : overrides) {
    ApplyOverride(option, &loaded.experiment, &places, &loaded.errors);
  }
  const Experiment whole = loaded.experiment;
  const Places whole_places = places;
  KeepOnly(options.only, &loaded.experiment, &places, &loaded.errors);
  const bool complete = outline.errors.empty();
  for (SpecError& error : Validate(loaded.experiment, places, complete)) {
    loaded.errors.push_back(std::move(error));
  }
  SortErrors(overrides, &loaded.errors);
  if (!loaded.errors.empty()) return loaded;
  // What only a variant that is left out reads is no mistake of the spec.
  for (SpecError& note : UnusedSettings(whole, whole_places)) {
    loaded.notes.push_back(std::move(note));
  }
  SortErrors(overrides, &loaded.notes);
  if (options.quick) {
    MakeQuick(options.blocks.has_value(), &loaded.experiment);
    loaded.errors = Validate(loaded.experiment, places, complete);
    if (!loaded.errors.empty()) return loaded;
  }
  FillDefaults(&loaded.experiment);
  return loaded;
}

}  // namespace lockstep
