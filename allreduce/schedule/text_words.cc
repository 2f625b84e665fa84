#include "allreduce/schedule/text_words.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

absl::string_view ForAbsl(std::string_view text) { return {text.data(), text.size()}; }

bool IsSpace(char c) { return absl::ascii_isspace(static_cast<unsigned char>(c)); }
bool IsWord(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

}  // namespace

Words::Words(std::string_view line, int32_t number) : number_(number) {
  line = line.substr(0, line.find('#'));
  while (!line.empty() && IsSpace(line.back())) line.remove_suffix(1);
  size_t at = 0;
  while (at < line.size()) {
    const size_t start = at++;
    if (IsSpace(line[start])) continue;
    if (IsWord(line[start])) {
      while (at < line.size() && IsWord(line[at])) ++at;
    } else if (line.substr(start, 2) == "..") {
      ++at;
    }
    words_.push_back({line.substr(start, at - start), static_cast<int32_t>(start) + 1});
  }
  end_column_ = static_cast<int32_t>(line.size()) + 1;
}

bool Words::Take(std::string_view word) {
  if (AtEnd() || words_[next_].text != word) return false;
  ++next_;
  return true;
}

absl::Status Words::Expect(std::string_view word, std::string_view example) {
  if (Take(word)) return absl::OkStatus();
  return Error(absl::StrCat("\"", ForAbsl(word), "\""), example);
}

absl::StatusOr<int32_t> Words::Number(std::string_view what, int32_t least, int32_t most,
                                      std::string_view example) {
  int32_t value = 0;
  if (!absl::SimpleAtoi(ForAbsl(Peek()), &value) || value < least || value > most) {
    const std::string range =
        least == most ? absl::StrCat(least) : absl::StrCat("a number from ", least, " to ", most);
    return Error(absl::StrCat(ForAbsl(what), ", ", range), example);
  }
  ++next_;
  return value;
}

absl::Status Words::End(std::string_view example) const {
  return AtEnd() ? absl::OkStatus() : Error("the end of the line", example);
}

absl::Status Words::Error(std::string_view expected, std::string_view example) const {
  constexpr size_t kQuotedMax = 40;
  std::string found = "the line ends";
  if (!AtEnd()) {
    const std::string_view word = Peek().substr(0, kQuotedMax);
    found = absl::StrCat("\"", absl::CHexEscape(ForAbsl(word)), "\" stands there");
  }
  return absl::InvalidArgumentError(
      absl::StrCat(number_, ":", AtEnd() ? end_column_ : words_[next_].column, ": expected ",
                   ForAbsl(expected), ", but ", found, "; for example: ", ForAbsl(example)));
}

}  // namespace lockstep
