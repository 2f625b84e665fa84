// text_words.h: one line of a schedule's text as words with columns, for text.cc. A word is
// letters, digits and underscores, or "..", or any other single character; '#' begins a comment.
// Errors: InvalidArgument, "line:column: expected WHAT, but WORD stands there; for example:
// EXAMPLE", of the word that comes next. The line must outlive the object. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep {

class Words {
 public:
  Words() = default;
  Words(std::string_view line, int32_t number);

  bool AtEnd() const { return next_ == words_.size(); }
  int32_t number() const { return number_; }  // of the line
  // The next word; empty: the line ends.
  std::string_view Peek() const { return AtEnd() ? std::string_view() : words_[next_].text; }

  // Goes on if `word` is next.
  bool Take(std::string_view word);
  absl::Status Expect(std::string_view word, std::string_view example);
  // A number from `least` to `most`, named `what` in the error.
  absl::StatusOr<int32_t> Number(std::string_view what, int32_t least, int32_t most,
                                 std::string_view example);
  absl::Status End(std::string_view example) const;

  absl::Status Error(std::string_view expected, std::string_view example) const;

 private:
  struct Word {
    std::string_view text;
    int32_t column = 0;
  };

  int32_t number_ = 0;
  int32_t end_column_ = 1;
  std::vector<Word> words_;
  size_t next_ = 0;
};

}  // namespace lockstep
