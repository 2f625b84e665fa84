#include "experiments/spec/outline.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

using google::protobuf::io::Tokenizer;
using Token = Tokenizer::Token;

constexpr int kDepthMax = 32;  // of nested blocks; the deepest real spec needs 4

class OutlineReader : public google::protobuf::io::ErrorCollector {
 public:
  explicit OutlineReader(const std::string& text);
  OutlineReader(const OutlineReader&) = delete;
  OutlineReader& operator=(const OutlineReader&) = delete;

  // Up to the end of the text.
  std::vector<OutlineField> All();
  OutlineField One();
  std::vector<OutlineError> TakeErrors() { return std::move(errors_); }

  // From the tokenizer: unterminated strings, characters that are none.
  void AddError(int line, int column, const std::string& message) override {
    errors_.push_back({.line = line + 1, .column = column + 1, .message = message});
  }

 private:
  const Token& current() const { return tokens_[position_]; }
  const Token& next() const {
    return tokens_[position_ + 1 < tokens_.size() ? position_ + 1 : position_];
  }
  bool AtEnd() const { return current().type == Tokenizer::TYPE_END; }
  bool At(const char* symbol) const {
    return current().type == Tokenizer::TYPE_SYMBOL && current().text == symbol;
  }
  bool AtName() const { return current().type == Tokenizer::TYPE_IDENTIFIER; }
  bool AtBlock() const { return At("{") || At("<"); }
  bool AtBlockEnd() const { return At("}") || At(">"); }
  bool StartsLine() const { return position_ == 0 || tokens_[position_ - 1].line < current().line; }
  bool StartsField() const;
  void Advance() { position_ += AtEnd() ? 0 : 1; }
  void Error(const Token& at, const std::string& message) { AddError(at.line, at.column, message); }
  static std::string Shown(const Token& token);
  void SkipToNextField();

  void Fields(std::vector<OutlineField>* fields);
  void Field(std::vector<OutlineField>* fields);
  bool Separator(const OutlineField& field);
  bool Values(OutlineField* field);
  bool List(OutlineField* field);
  bool Value(OutlineField* field);
  bool Block(OutlineValue* value);
  bool Scalar(const std::string& name, OutlineValue* value);

  std::vector<Token> tokens_;  // the last one is TYPE_END
  size_t position_ = 0;
  int depth_ = 0;
  bool too_deep_ = false;  // the rest is not read: nothing more can be said of what is never closed
  std::vector<OutlineError> errors_;
};

OutlineReader::OutlineReader(const std::string& text) {
  google::protobuf::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  Tokenizer tokenizer(&stream, this);
  tokenizer.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
  tokenizer.set_allow_f_after_float(true);
  while (tokenizer.Next()) tokens_.push_back(tokenizer.current());
  tokens_.push_back(tokenizer.current());
}

std::string OutlineReader::Shown(const Token& token) {
  return token.type == Tokenizer::TYPE_END ? "the end of the text"
                                           : absl::StrCat("'", token.text, "'");
}

// A name that something follows which only follows the name of a field.
bool OutlineReader::StartsField() const {
  if (!AtName() || next().type != Tokenizer::TYPE_SYMBOL) return false;
  const std::string& text = next().text;
  return text == ":" || text == "{" || text == "<" || text == "=";
}

void OutlineReader::SkipToNextField() {
  while (!AtEnd() && !AtBlockEnd() && !(AtName() && StartsLine())) Advance();
}

std::vector<OutlineField> OutlineReader::All() {
  std::vector<OutlineField> fields;
  while (!AtEnd()) {
    Fields(&fields);
    if (AtEnd()) break;
    Error(current(),
          absl::StrCat(Shown(current()), " closes nothing: no block is open here; remove it"));
    Advance();
  }
  return fields;
}

OutlineField OutlineReader::One() {
  OutlineField field{.line = current().line + 1, .column = current().column + 1};
  field.unreadable = !Values(&field);
  if (!field.unreadable && !AtEnd()) {
    Error(current(), absl::StrCat("expected the end after the value, got ", Shown(current())));
    field.unreadable = true;
  }
  return field;
}

// Up to the token that ends the block, or the end of the text.
// NOLINTNEXTLINE(misc-no-recursion): Block bounds the depth
void OutlineReader::Fields(std::vector<OutlineField>* fields) {
  while (!AtEnd() && !AtBlockEnd()) {
    if (!AtName()) {
      Error(current(), absl::StrCat("expected the name of a field, got ", Shown(current())));
      Advance();
      SkipToNextField();
      continue;
    }
    Field(fields);
    if (At(",") || At(";")) Advance();
  }
}

// NOLINTNEXTLINE(misc-no-recursion): Block bounds the depth
void OutlineReader::Field(std::vector<OutlineField>* fields) {
  OutlineField field{
      .name = current().text, .line = current().line + 1, .column = current().column + 1};
  Advance();
  field.unreadable = !Separator(field) || !Values(&field);
  if (field.unreadable) SkipToNextField();
  fields->push_back(std::move(field));
}

// The colon; a forgotten one is an error that hides nothing behind it.
bool OutlineReader::Separator(const OutlineField& field) {
  if (At(":")) {
    Advance();
    return true;
  }
  if (AtBlock() || (At("[") && next().text == "{")) return true;
  Error(current(), absl::StrCat("expected ':' after '", field.name, "', got ", Shown(current()),
                                "; write ", field.name, ": value"));
  if (At("=")) Advance();
  return !StartsLine() && !AtEnd() && !AtBlockEnd();
}

// NOLINTNEXTLINE(misc-no-recursion): Block bounds the depth
bool OutlineReader::Values(OutlineField* field) {
  if (!At("[")) return Value(field);
  field->list = true;
  Advance();
  return List(field);
}

// NOLINTNEXTLINE(misc-no-recursion): Block bounds the depth
bool OutlineReader::List(OutlineField* field) {
  if (At("]")) {
    Advance();
    return true;
  }
  while (Value(field)) {
    if (At("]")) {
      Advance();
      return true;
    }
    if (!At(",")) {
      Error(current(), absl::StrCat("expected ',' or ']' in the list, got ", Shown(current())));
      return false;
    }
    Advance();
  }
  return false;
}

// NOLINTNEXTLINE(misc-no-recursion): Block bounds the depth
bool OutlineReader::Value(OutlineField* field) {
  OutlineValue value;
  value.line = current().line + 1;
  value.column = current().column + 1;
  const bool read = AtBlock() ? Block(&value) : Scalar(field->name, &value);
  if (read) field->values.push_back(std::move(value));
  return read;
}

// NOLINTNEXTLINE(misc-no-recursion): the depth is bounded here
bool OutlineReader::Block(OutlineValue* value) {
  const Token open = current();
  if (depth_ == kDepthMax) {
    Error(open, absl::StrCat("blocks are nested deeper than ", kDepthMax));
    position_ = tokens_.size() - 1;
    too_deep_ = true;
    return false;
  }
  Advance();
  value->block = true;
  ++depth_;
  Fields(&value->fields);
  --depth_;
  if (AtEnd()) {
    if (too_deep_) return true;
    Error(open, absl::StrCat("'", open.text, "' is never closed; add the matching '",
                             open.text == "{" ? "}" : ">", "'"));
    return true;  // what stands in it still counts
  }
  if (At("}") != (open.text == "{")) {
    Error(current(),
          absl::StrCat(Shown(current()), " closes the '", open.text, "' of line ", open.line + 1));
  }
  Advance();
  return true;
}

bool OutlineReader::Scalar(const std::string& name, OutlineValue* value) {
  if (At("-")) {
    value->text = "-";
    Advance();
  }
  const Tokenizer::TokenType type = current().type;
  const bool is_value = type == Tokenizer::TYPE_INTEGER || type == Tokenizer::TYPE_FLOAT ||
                        type == Tokenizer::TYPE_STRING || type == Tokenizer::TYPE_IDENTIFIER;
  if (!is_value || (StartsLine() && StartsField())) {
    Error(current(),
          absl::StrCat("expected a value", name.empty() ? "" : absl::StrCat(" for '", name, "'"),
                       ", got ", Shown(current())));
    return false;
  }
  absl::StrAppend(&value->text, current().text);
  Advance();
  while (type == Tokenizer::TYPE_STRING && current().type == Tokenizer::TYPE_STRING) {
    absl::StrAppend(&value->text, " ", current().text);  // adjacent strings are one
    Advance();
  }
  return true;
}

}  // namespace

Outline ReadFields(const std::string& text) {
  OutlineReader reader(text);
  Outline outline{.fields = reader.All()};
  outline.errors = reader.TakeErrors();
  return outline;
}

Outline ReadValue(const std::string& text) {
  OutlineReader reader(text);
  Outline outline;
  outline.fields.push_back(reader.One());
  outline.errors = reader.TakeErrors();
  return outline;
}

}  // namespace lockstep
