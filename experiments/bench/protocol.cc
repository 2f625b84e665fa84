#include "experiments/bench/protocol.h"

#include <array>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr char kChoice[] = " choice=";  // last, because its value has blanks

absl::Status Malformed(const std::string& line) {
  return absl::InvalidArgumentError(absl::StrCat("bench: cannot read '", line.substr(0, 200), "'"));
}

// "word key=value key=value ..."; false: not of this kind.
class Fields {
 public:
  Fields(const std::string& line, const std::string& word) : words_(absl::StrSplit(line, ' ')) {
    ok_ = words_[0] == word;
  }
  bool ok() const { return ok_; }

  std::string Text(const std::string& key) {
    for (const std::string& word : words_) {
      if (absl::StartsWith(word, key + "=")) return word.substr(key.size() + 1);
    }
    ok_ = false;
    return "";
  }
  template <typename Number>
  Number Integer(const std::string& key) {
    Number value = 0;
    ok_ = absl::SimpleAtoi(Text(key), &value) && ok_;
    return value;
  }
  double Real(const std::string& key) {
    double value = 0;
    ok_ = absl::SimpleAtod(Text(key), &value) && ok_;
    return value;
  }
  template <typename Value>
  Value Known(const std::optional<Value>& value) {
    ok_ = ok_ && value.has_value();
    return value.value_or(Value{});
  }

 private:
  const std::vector<std::string> words_;
  bool ok_ = true;
};

template <typename Value, size_t n>
std::optional<Value> Named(const std::array<Value, n>& values, const std::string& name) {
  for (const Value value : values) {
    if (NameOf(value) == name) return value;
  }
  return std::nullopt;
}

// Every digit: StrCat would keep six.
std::string Exactly(double value) { return absl::StrFormat("%.17g", value); }

}  // namespace

std::optional<Dtype> DtypeNamed(const std::string& name) {
  return Named(std::array{Dtype::kF32, Dtype::kF64, Dtype::kF16, Dtype::kBf16, Dtype::kI32,
                          Dtype::kI64, Dtype::kU8},
               name);
}

std::optional<ReduceOp> ReduceOpNamed(const std::string& name) {
  return Named(
      std::array{ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProd},
      name);
}

std::string ToLine(const Turn& turn) {
  return absl::StrCat("turn algorithm=", turn.algorithm, " count=", turn.count,
                      " dtype=", NameOf(turn.dtype), " op=", NameOf(turn.op),
                      " warmup=", turn.warmup, " operations=", turn.operations,
                      " check=", turn.check ? 1 : 0);
}

absl::StatusOr<Turn> ParseTurn(const std::string& line) {
  Fields fields(line, "turn");
  Turn turn;
  turn.algorithm = fields.Text("algorithm");
  turn.count = fields.Integer<int64_t>("count");
  turn.dtype = fields.Known(DtypeNamed(fields.Text("dtype")));
  turn.op = fields.Known(ReduceOpNamed(fields.Text("op")));
  turn.warmup = fields.Integer<int>("warmup");
  turn.operations = fields.Integer<int>("operations");
  turn.check = fields.Integer<int>("check") != 0;
  if (!fields.ok() || turn.count < 0 || turn.warmup < 0 || turn.operations < 1) {
    return Malformed(line);
  }
  return turn;
}

std::string ToLine(const TurnReport& report) {
  return absl::StrCat("done cpu_ns=", report.cpu_ns, " bytes=", Exactly(report.sent_bytes),
                      " messages=", Exactly(report.sent_messages), " rows=", Exactly(report.rows),
                      " correct=", report.correct ? 1 : 0, " congestion=", report.congestion,
                      " times=", absl::StrJoin(report.times_ns, ","), kChoice,
                      absl::StrReplaceAll(report.choice, {{"\n", " "}}));
}

absl::StatusOr<TurnReport> ParseReport(const std::string& line) {
  const size_t choice = line.find(kChoice);
  if (choice == std::string::npos) return Malformed(line);
  Fields fields(line.substr(0, choice), "done");
  TurnReport report;
  report.cpu_ns = fields.Integer<int64_t>("cpu_ns");
  report.sent_bytes = fields.Real("bytes");
  report.sent_messages = fields.Real("messages");
  report.rows = fields.Real("rows");
  report.correct = fields.Integer<int>("correct") != 0;
  report.congestion = fields.Text("congestion");
  report.choice = line.substr(choice + sizeof(kChoice) - 1);
  bool numbers = true;
  for (const auto& text : absl::StrSplit(fields.Text("times"), ',')) {
    report.times_ns.push_back(0);
    numbers = absl::SimpleAtoi(text, &report.times_ns.back()) && numbers;
  }
  if (!fields.ok() || !numbers) return Malformed(line);
  return report;
}

std::string ToLine(const LinkWords& words) {
  return absl::StrCat("link alpha_ns=", Exactly(words.alpha_ns),
                      " beta_ns_per_byte=", Exactly(words.beta_ns_per_byte),
                      " crowd_empty_ns=", Exactly(words.crowd_empty_ns),
                      " crowd_large_ns=", Exactly(words.crowd_large_ns),
                      " crowd_bytes=", words.crowd_bytes);
}

std::optional<LinkWords> ParseLink(const std::string& text) {
  Fields fields(text, "link");
  LinkWords words;
  words.alpha_ns = fields.Real("alpha_ns");
  words.beta_ns_per_byte = fields.Real("beta_ns_per_byte");
  words.crowd_empty_ns = fields.Real("crowd_empty_ns");
  words.crowd_large_ns = fields.Real("crowd_large_ns");
  words.crowd_bytes = fields.Integer<int64_t>("crowd_bytes");
  return fields.ok() ? std::optional(words) : std::nullopt;
}

std::string ToLine(const absl::Status& error) {
  const std::vector<std::string> blamed = BlamedBy(error);
  return absl::StrCat(
      "error ", static_cast<int>(error.code()), " ",
      blamed.empty() ? "-" : absl::StrReplaceAll(absl::StrJoin(blamed, ","), {{" ", "_"}}), " ",
      absl::StrReplaceAll(error.message(), {{"\n", " | "}}));
}

absl::Status ErrorOf(const std::string& line) {
  const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(' ', 3));
  int code = 0;
  if (parts[0] != "error") return absl::OkStatus();
  if (parts.size() != 4 || !absl::SimpleAtoi(parts[1], &code)) return Malformed(line);
  absl::Status error(static_cast<absl::StatusCode>(code),
                     absl::StrReplaceAll(parts[3], {{" | ", "\n"}}));
  if (parts[2] == "-") return error;
  return Blame(error,
               absl::StrSplit(absl::StrReplaceAll(parts[2], {{"_", " "}}), ',', absl::SkipEmpty()));
}

}  // namespace lockstep
