#include "experiments/spec/override.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "experiments/spec/bind.h"
#include "experiments/spec/names.h"
#include "experiments/spec/outline.h"

namespace lockstep {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr int kWholeField = -1;

bool IsBlank(char c) { return absl::ascii_isspace(static_cast<unsigned char>(c)); }

class Assignment {
 public:
  Assignment(const Override& option, Experiment* experiment, Places* places,
             std::vector<SpecError>* errors)
      : option_(option),
        text_(option.assignment),
        message_(experiment),
        places_(places),
        errors_(errors) {}

  void Apply();

 private:
  bool ParsePath(size_t path_end);
  bool ParseIndex(size_t path_end);
  bool FindElement(const std::string& index);
  bool Descend();
  void Assign(const std::string& value, size_t value_start);
  Outline ReadFor(const std::string& value) const;
  void ReplaceElement(const OutlineField& outline, Binder* binder);
  std::string ElementNames() const;
  std::string ParentName() const { return path_.empty() ? "the experiment" : path_; }
  bool Fail(size_t at, const std::string& message) {
    errors_->push_back({.place = PlaceAt(at), .message = message});
    return false;
  }
  SpecPlace PlaceAt(size_t at) const {
    return {.file = option_.shown,
            .line = 0,
            .column = static_cast<int>(at) + 1 - option_.hidden_characters};
  }

  const Override& option_;
  const std::string& text_;
  size_t position_ = 0;
  size_t segment_ = 0;  // where the current name starts
  // The field reached so far: `field_` of `message_`, which stands at `path_`.
  Message* message_;
  std::string path_;
  const FieldDescriptor* field_ = nullptr;
  int index_ = kWholeField;
  Places* places_;
  std::vector<SpecError>* errors_;
};

void Assignment::Apply() {
  // Blanks around the path and the value are no part of them.
  const size_t equals = text_.find('=');
  size_t path_end = equals == std::string::npos ? 0 : equals;
  while (position_ < path_end && IsBlank(text_[position_])) ++position_;
  while (path_end > position_ && IsBlank(text_[path_end - 1])) --path_end;
  if (path_end == position_) {
    Fail(0, absl::StrCat("expected path=value, for example train.steps=60",
                         KnownNames(text_, "fields", FieldNames(*message_->GetDescriptor()))));
    return;
  }
  if (ParsePath(path_end)) Assign(text_.substr(equals + 1), equals + 1);
}

// Walks to the field that the path names; blocks on the way are created.
bool Assignment::ParsePath(size_t path_end) {
  while (true) {
    segment_ = position_;
    while (position_ < path_end && text_[position_] != '.' && text_[position_] != '[') ++position_;
    const std::string name = text_.substr(segment_, position_ - segment_);
    field_ = message_->GetDescriptor()->FindFieldByName(name);
    if (field_ == nullptr) {
      return Fail(segment_,
                  absl::StrCat("unknown field \"", name, "\" in ", ParentName(),
                               KnownNames(name, "fields", FieldNames(*message_->GetDescriptor()))));
    }
    index_ = kWholeField;
    if (position_ < path_end && text_[position_] == '[' && !ParseIndex(path_end)) return false;
    if (position_ == path_end) return true;
    if (text_[position_] != '.') {
      return Fail(position_,
                  absl::StrCat("expected '.', '[' or '=', got '", text_.substr(position_, 1), "'"));
    }
    ++position_;
    if (!Descend()) return false;
  }
}

bool Assignment::ParseIndex(size_t path_end) {
  const size_t open = position_;
  const size_t close = text_.find(']', open);
  if (close == std::string::npos || close > path_end) return Fail(open, "'[' is never closed");
  if (!field_->is_repeated()) {
    return Fail(open,
                absl::StrCat(JoinPath(path_, field_->name()), " is not a list; leave the [ ] out"));
  }
  position_ = close + 1;
  const std::string index = text_.substr(open + 1, close - open - 1);
  if (FindElement(index)) return true;
  return Fail(open + 1, absl::StrCat(JoinPath(path_, field_->name()), " has no element \"", index,
                                     "\"; ", ElementNames()));
}

bool Assignment::FindElement(const std::string& index) {
  const google::protobuf::Reflection& reflection = *message_->GetReflection();
  const int size = reflection.FieldSize(*message_, field_);
  if (absl::SimpleAtoi(index, &index_)) return index_ >= 0 && index_ < size;
  if (field_->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return false;
  const FieldDescriptor* name = field_->message_type()->FindFieldByName("name");
  for (index_ = 0; name != nullptr && index_ < size; ++index_) {
    const Message& element = reflection.GetRepeatedMessage(*message_, field_, index_);
    if (element.GetReflection()->GetString(element, name) == index) return true;
  }
  return false;
}

// "it has 3: 0 (none), 1 (ps_sync), 2 (ring)"
std::string Assignment::ElementNames() const {
  const google::protobuf::Reflection& reflection = *message_->GetReflection();
  const int size = reflection.FieldSize(*message_, field_);
  const bool blocks = field_->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  const FieldDescriptor* name = blocks ? field_->message_type()->FindFieldByName("name") : nullptr;
  if (size == 0) return "it is empty";
  std::vector<std::string> shown;
  for (int i = 0; i < size; ++i) {
    shown.push_back(absl::StrCat(i));
    if (name == nullptr) continue;
    const Message& element = reflection.GetRepeatedMessage(*message_, field_, i);
    absl::StrAppend(&shown.back(), " (", element.GetReflection()->GetString(element, name), ")");
  }
  return absl::StrCat("it has ", size, ": ", absl::StrJoin(shown, ", "));
}

bool Assignment::Descend() {
  const google::protobuf::Reflection& reflection = *message_->GetReflection();
  const std::string here = JoinPath(path_, field_->name());
  if (field_->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
    return Fail(segment_, absl::StrCat(here, " has no fields; it is ", ExpectedValue(*field_)));
  }
  if (field_->is_repeated()) {
    if (index_ == kWholeField) {
      return Fail(segment_, absl::StrCat(here, " is a list: say which element, as ", here, "[0].",
                                         text_.substr(position_), "; ", ElementNames()));
    }
    message_ = reflection.MutableRepeatedMessage(message_, field_, index_);
    path_ = IndexedPath(here, index_);
    return true;
  }
  const google::protobuf::OneofDescriptor* oneof = field_->real_containing_oneof();
  if (oneof != nullptr && reflection.HasOneof(*message_, oneof) &&
      !reflection.HasField(*message_, field_)) {
    return Fail(segment_,
                absl::StrCat(ParentName(), " has \"",
                             reflection.GetOneofFieldDescriptor(*message_, oneof)->name(),
                             "\", which \"", field_->name(), "\" excludes; to change over, set ",
                             here, "='{ ... }' as a whole"));
  }
  if (!places_->Contains(here)) places_->Set(here, PlaceAt(segment_));
  message_ = reflection.MutableMessage(message_, field_);
  path_ = here;
  return true;
}

// What a shell makes tedious may be left out: quotes of one text, braces of one block.
Outline Assignment::ReadFor(const std::string& value) const {
  const std::string trimmed(absl::StripAsciiWhitespace(value));
  const char first = trimmed.empty() ? '\0' : trimmed[0];
  const bool text =
      field_->cpp_type() == FieldDescriptor::CPPTYPE_STRING && first != '"' && first != '\'';
  const bool block =
      field_->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && first != '{' && first != '<';
  if ((!text && !block) || first == '[') return ReadValue(value);
  OutlineValue single;
  single.line = 1;
  single.column = 1;
  single.block = block;
  Outline outline;
  if (block) {
    outline = ReadFields(value);
    single.fields = std::move(outline.fields);
    outline.fields.clear();
  } else {
    single.text = absl::StrCat("\"", absl::CEscape(trimmed), "\"");
  }
  outline.fields.emplace_back();
  outline.fields[0].line = 1;
  outline.fields[0].column = 1;
  outline.fields[0].values.push_back(std::move(single));
  return outline;
}

void Assignment::Assign(const std::string& value, size_t value_start) {
  const google::protobuf::Reflection& reflection = *message_->GetReflection();
  const Outline outline = ReadFor(value);
  const SpecSource source{
      .file = option_.shown,
      .override_text = true,
      .column_offset = static_cast<int>(value_start) - option_.hidden_characters};
  Binder binder(source, places_, errors_);
  binder.SyntaxErrors(outline.errors);
  if (index_ != kWholeField) {
    ReplaceElement(outline.fields[0], &binder);
    return;
  }
  const google::protobuf::OneofDescriptor* oneof = field_->real_containing_oneof();
  if (oneof != nullptr && reflection.HasOneof(*message_, oneof)) {
    places_->Erase(JoinPath(path_, reflection.GetOneofFieldDescriptor(*message_, oneof)->name()));
    reflection.ClearOneof(message_, oneof);
  }
  places_->Erase(JoinPath(path_, field_->name()));
  reflection.ClearField(message_, field_);
  binder.BindField(outline.fields[0], path_, *field_, message_);
}

void Assignment::ReplaceElement(const OutlineField& outline, Binder* binder) {
  const google::protobuf::Reflection& reflection = *message_->GetReflection();
  const std::string element = IndexedPath(JoinPath(path_, field_->name()), index_);
  if (outline.list) {
    Fail(text_.find('=') + 1, absl::StrCat(element, " takes one value, got a list"));
    return;
  }
  places_->Erase(element);
  places_->Set(element, PlaceAt(0));
  const int size = reflection.FieldSize(*message_, field_);
  for (const OutlineValue& value : outline.values) {
    binder->BindValue(value, element, *field_, message_);
  }
  if (reflection.FieldSize(*message_, field_) == size) return;  // unreadable, and reported
  reflection.SwapElements(message_, field_, index_, size);
  reflection.RemoveLast(message_, field_);
}

}  // namespace

void ApplyOverride(const Override& override_, Experiment* experiment, Places* places,
                   std::vector<SpecError>* errors) {
  Assignment(override_, experiment, places, errors).Apply();
}

}  // namespace lockstep
