#include "experiments/spec/validate.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "experiments/spec/conflicts.h"
#include "experiments/spec/defaults.h"
#include "experiments/spec/rules.h"
#include "experiments/spec/walk.h"

namespace lockstep {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// 1000000 rather than 1e+06.
std::string Shown(double number) {
  const bool whole = std::floor(number) == number && std::fabs(number) < 1e18;
  return whole ? absl::StrCat(static_cast<int64_t>(number)) : absl::StrCat(number);
}

std::string BuiltToday(const std::vector<std::string>& built) {
  return absl::StrCat("not built yet; built today: ", absl::StrJoin(built, ", "));
}

// The fields of `message` that have a rule and are not refused by it.
std::vector<std::string> BuiltFields(const google::protobuf::OneofDescriptor& oneof,
                                     const std::string& path) {
  std::vector<std::string> built;
  for (int i = 0; i < oneof.field_count(); ++i) {
    const std::string& name = oneof.field(i)->name();
    const auto rule = FindRule(PathPattern(JoinPath(path, name)));
    if (rule.has_value() && rule->kind != RuleKind::kNotBuilt) built.push_back(name);
  }
  return built;
}

std::string CheckRange(const FieldRule& rule, const FieldValue& value) {
  const double number = value.Number();
  if (number >= rule.min && number <= rule.max) return "";  // false for NaN
  return absl::StrCat(value.Text(), " is out of range; allowed: ", Shown(rule.min), " to ",
                      Shown(rule.max), " (", rule.meaning, ")");
}

std::string CheckChoice(const FieldRule& rule, const FieldValue& value) {
  const std::vector<std::string> built = absl::StrSplit(rule.built, ' ');
  if (std::find(built.begin(), built.end(), value.Text()) != built.end()) return "";
  return absl::StrCat(value.Text(), " is ", BuiltToday(built));
}

bool IsNameLetter(char c) {
  return absl::ascii_islower(static_cast<unsigned char>(c)) ||
         absl::ascii_isdigit(static_cast<unsigned char>(c));
}

std::string CheckName(const FieldValue& value) {
  const std::string name = value.message.GetReflection()->GetString(value.message, &value.field);
  const bool letters = std::all_of(name.begin(), name.end(), [](char c) {
    return IsNameLetter(c) || c == '_' || c == '.' || c == '-';
  });
  const bool length = !name.empty() && name.size() <= kNameLettersMax;
  if (letters && length && IsNameLetter(name[0])) return "";
  return absl::StrCat(value.Text(), " can't be used in file names; write 1 to ", kNameLettersMax,
                      " of a-z 0-9 _ . -, the first a letter or a digit");
}

// What `rule` has against the value; empty when nothing.
std::string Objection(const FieldRule& rule, const FieldValue& value) {
  if (rule.sweep == Sweep::kNotBuilt && value.index > 0) return "";  // the list is refused
  switch (rule.kind) {
    case RuleKind::kBlock:
    case RuleKind::kText:
      return "";
    case RuleKind::kRange:
      return CheckRange(rule, value);
    case RuleKind::kChoice:
      return CheckChoice(rule, value);
    case RuleKind::kName:
      return CheckName(value);
    case RuleKind::kNotBuilt:
      return absl::StrCat("not built yet: remove it; ", rule.built);
  }
  return "";
}

class Validator {
 public:
  Validator(const Places& places, std::vector<SpecError>* errors)
      : places_(places), errors_(errors) {}

  bool Visit(const FieldValue& value) {
    const auto rule = FindRule(value.pattern);
    if (!rule.has_value()) return Unknown(value);
    if (rule->sweep == Sweep::kNotBuilt && value.index == 1) {
      const int size = value.message.GetReflection()->FieldSize(value.message, &value.field);
      Error(value.path, value.list_path,
            absl::StrCat("a list (sweep) of ", size,
                         " values is not built yet; write one value and "
                         "compare them one after another"));
    }
    const std::string objection = Objection(*rule, value);
    if (!objection.empty()) Error(value.path, value.path, objection);
    return rule->kind == RuleKind::kBlock && CheckOneofs(value);
  }

 private:
  // A field without a rule.
  bool Unknown(const FieldValue& value) {
    const google::protobuf::OneofDescriptor* oneof = value.field.real_containing_oneof();
    const size_t cut = value.path.rfind('.');
    const std::string parent = cut == std::string::npos ? "" : value.path.substr(0, cut);
    Error(value.path, value.path,
          oneof != nullptr ? BuiltToday(BuiltFields(*oneof, parent)) : "not built yet; remove it");
    return false;
  }

  // Of every choice between blocks, one has to be made.
  bool CheckOneofs(const FieldValue& value) {
    const google::protobuf::Reflection& reflection = *value.message.GetReflection();
    if (value.field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return true;
    const Message& block =
        value.index >= 0 ? reflection.GetRepeatedMessage(value.message, &value.field, value.index)
                         : reflection.GetMessage(value.message, &value.field);
    const google::protobuf::Descriptor& descriptor = *block.GetDescriptor();
    for (int i = 0; i < descriptor.real_oneof_decl_count(); ++i) {
      const google::protobuf::OneofDescriptor& oneof = *descriptor.oneof_decl(i);
      if (block.GetReflection()->HasOneof(block, &oneof)) continue;
      bool unreadable = false;
      for (int j = 0; j < oneof.field_count(); ++j) {
        unreadable = unreadable || places_.Unreadable(JoinPath(value.path, oneof.field(j)->name()));
      }
      if (unreadable) continue;
      Error(value.path, value.path,
            absl::StrCat("leaves ", oneof.name(), " open; add one of: ",
                         absl::StrJoin(BuiltFields(oneof, value.path), ", ")));
    }
    return true;
  }

  void Error(const std::string& place, const std::string& path, const std::string& message) {
    errors_->push_back(
        {.place = places_.Find(place), .message = absl::StrCat(path, ": ", message)});
  }

  const Places& places_;
  std::vector<SpecError>* errors_;
};

// Whether the field at the dotted `path` of single blocks is written.
bool IsWritten(const Message& experiment, const std::string& path) {
  const Message* message = &experiment;
  const std::vector<std::string> names = absl::StrSplit(path, '.');
  for (const std::string& name : names) {
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(name);
    const google::protobuf::Reflection& reflection = *message->GetReflection();
    if (field->is_repeated()) return reflection.FieldSize(*message, field) > 0;
    if (!reflection.HasField(*message, field)) return false;
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return true;
    message = &reflection.GetMessage(*message, field);
  }
  return true;
}

// Beside synchronous variants EXACT has its meaning, so this is no error.
void NoteAsyncBesideExact(const Experiment& experiment, const Places& places,
                          std::vector<SpecError>* notes) {
  if (experiment.reduction_order() != EXACT) return;
  for (const Variant& variant : experiment.variant()) {
    const bool sums_some = variant.ps().mode() == Ps::K_OF_N;
    if (!variant.has_ps() || variant.ps().mode() == Ps::SYNC) continue;
    notes->push_back({.place = places.Find("reduction_order"),
                      .message = absl::StrCat(
                          "reduction_order: EXACT changes nothing for variant ", variant.name(),
                          sums_some ? ": which pushes an update has is a race"
                                    : ": it applies each gradient alone and sums "
                                      "none")});
  }
}

}  // namespace

std::vector<SpecError> Validate(const Experiment& experiment, const Places& places, bool complete) {
  std::vector<SpecError> errors;
  for (const RequiredField& required : kRequiredFields) {
    if (!complete || IsWritten(experiment, required.path) || places.Unreadable(required.path)) {
      continue;
    }
    errors.push_back(
        {.place = places.Find(required.path),
         .message = absl::StrCat(required.path, " is missing; add ", required.example)});
  }
  Validator validator(places, &errors);
  VisitFields(experiment, "", [&](const FieldValue& value) { return validator.Visit(value); });
  CheckConflicts(experiment, places, &errors);
  return errors;
}

std::vector<SpecError> UnusedSettings(const Experiment& experiment, const Places& places) {
  std::vector<SpecError> notes;
  VisitFields(experiment, "", [&](const FieldValue& value) {
    for (const UnusedRule& rule : UnusedRules()) {
      if (value.pattern != rule.path || !rule.unused(experiment)) continue;
      if (value.Text() == DefaultText(value.pattern, value.field)) continue;
      notes.push_back({.place = places.Find(value.path),
                       .message = absl::StrCat(value.list_path, " changes nothing: ", rule.why)});
    }
    return true;
  });
  NoteAsyncBesideExact(experiment, places, &notes);
  return notes;
}

}  // namespace lockstep
