#include "experiments/analyse/terminal.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "experiments/analyse/format.h"
#include "experiments/analyse/verdict.h"

namespace lockstep {
namespace {

constexpr auto kWidth = static_cast<size_t>(kTerminalColumns);
constexpr size_t kColumns = 8;
using Row = std::array<std::string, kColumns>;

// Every cell but the variant has a bound, so that the table fits whatever the numbers are; the
// variant's column takes what is left.
constexpr size_t kRateChars = 8;
constexpr size_t kNumberChars = 6;
constexpr size_t kShareChars = 7;
constexpr size_t kLossChars = 8;  // "0.000412"; a loss has no smaller unit to go to
constexpr size_t kNodeChars = 8;
constexpr std::array<bool, kColumns> kRight = {false, true, true, true, true, true, false, true};
constexpr char kAbsent[] = "-";

bool IsControl(unsigned char byte) { return byte < 0x20 || byte == 0x7F; }

// A path keeps its letters, whatever their alphabet.
std::string PathText(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return IsControl(static_cast<unsigned char>(c)); },
      '?');
  return text;
}

std::string Ascii(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0) == 0x80) continue;  // one '?' a character, not one a byte
    const bool space = c == '\n' || c == '\t';
    result += byte >= 0x80 || (IsControl(byte) && !space) ? '?' : c;
  }
  return result;
}

std::string Clip(const std::string& text, size_t width) {
  if (text.size() <= width) return text;
  return absl::StrCat(text.substr(0, width - 1), "~");
}

// Words in lines of at most kWidth; a longer word is cut.
std::string Wrap(const std::string& text, const std::string& indent) {
  std::string result;
  std::string line;
  const std::vector<std::string> words =
      absl::StrSplit(Ascii(text), absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
  for (std::string word : words) {
    while (!word.empty()) {
      const size_t used = line.empty() ? indent.size() : line.size() + 1;
      if (used + word.size() <= kWidth) {
        absl::StrAppend(&line, line.empty() ? indent : " ", word);
        break;
      }
      if (!line.empty()) {
        absl::StrAppend(&result, line, "\n");
        line.clear();
        continue;
      }
      const size_t part = kWidth - indent.size();
      absl::StrAppend(&result, indent, word.substr(0, part), "\n");
      word.erase(0, part);
    }
  }
  if (!line.empty()) absl::StrAppend(&result, line, "\n");
  return result;
}

// A column's unit, `divisor` of what the run file holds. Three digits of 0.01 and above fit into
// kNumberChars, so smaller values take the smaller unit; all rows the same, so that they compare.
struct Unit {
  const char* name;
  double divisor;
};
Unit PickUnit(const std::vector<double>& values, const Unit& large, const Unit& small) {
  constexpr double kLeast = 0.01;
  constexpr double kMost = 999'999;
  double least = kLeast * large.divisor;
  double most = 0;
  for (const double value : values) {
    if (value > 0) least = std::min(least, value);
    most = std::max(most, value);
  }
  const bool fits = most <= kMost * small.divisor;
  return least < kLeast * large.divisor && fits ? small : large;
}

struct Units {
  Unit bytes;
  Unit time;  // run files hold microseconds
};
Units UnitsOf(const std::vector<const VariantResult*>& variants) {
  std::vector<double> bytes;
  std::vector<double> times_us;
  for (const VariantResult* variant : variants) {
    bytes.insert(bytes.end(), {variant->bytes().tx_per_worker_step(), variant->bytes().formula(),
                               variant->busiest().bytes_per_step()});
    times_us.insert(times_us.end(), {variant->step_us().p50(), variant->step_us().p95()});
  }
  return {.bytes = PickUnit(bytes, {"MB", 1e6}, {"kB", 1e3}),
          .time = PickUnit(times_us, {"ms", 1e3}, {"us", 1})};
}

// Three digits, fewer where they would not fit.
std::string Cell(double value, size_t chars) {
  std::string text = Significant(value, 3);
  for (int decimals = 1; decimals >= 0 && text.size() > chars; --decimals) {
    char buffer[32];
    std::snprintf(buffer, sizeof(buffer), "%.*e", decimals, value);
    text = buffer;
  }
  return text;
}

std::string UnitCell(double value, const Unit& unit) {
  return Cell(value / unit.divisor, kNumberChars);
}

// "server 0", "in" -> "s0 in".
std::string ShortNode(const Busiest& busiest) {
  const std::vector<std::string> words = absl::StrSplit(busiest.node(), ' ');
  const std::string node = words.size() == 2 && !words[0].empty()
                               ? absl::StrCat(words[0].substr(0, 1), words[1])
                               : busiest.node();
  return Clip(Ascii(absl::StrCat(node, " ", busiest.direction())), kNodeChars);
}

std::string ReplicaCell(const ReplicaResult& replicas) {
  if (replicas.state() == "diverged" &&
      replicas.max_rel().kind_case() == google::protobuf::Value::kNumberValue) {
    const std::string share = Significant(replicas.max_rel().number_value() * 100, 2);
    return absl::StrCat(share.size() > kShareChars
                            ? Cell(replicas.max_rel().number_value() * 100, kShareChars)
                            : share,
                        "% apart");
  }
  return replicas.state().empty() ? kAbsent : Clip(Ascii(replicas.state()), 12);
}

Row RowOf(const VariantResult& variant, const Units& units) {
  Row row;
  row.fill(kAbsent);
  row[0] = Ascii(variant.id());
  if (variant.has_samples_per_s()) row[1] = Cell(variant.samples_per_s().median(), kRateChars);
  if (variant.has_step_us()) {
    row[2] = absl::StrCat(UnitCell(variant.step_us().p50(), units.time), "/",
                          UnitCell(variant.step_us().p95(), units.time));
  }
  if (variant.has_bytes()) {
    row[3] = UnitCell(variant.bytes().tx_per_worker_step(), units.bytes);
    row[4] = UnitCell(variant.bytes().formula(), units.bytes);
  }
  if (variant.has_busiest()) {
    row[5] = absl::StrCat(ShortNode(variant.busiest()), " ",
                          UnitCell(variant.busiest().bytes_per_step(), units.bytes));
  }
  row[6] = ReplicaCell(variant.replicas());
  if (variant.loss().has_final()) row[7] = Cell(variant.loss().final(), kLossChars);
  return row;
}

// Ranked first, fastest first where the verdict decided it; otherwise as in the spec. The control
// is last.
std::vector<const VariantResult*> InOrder(const RunFile& run) {
  std::vector<const VariantResult*> order;
  for (const VariantResult& variant : run.runs()) order.push_back(&variant);
  const bool by_speed = run.verdict().rule() == kRuleFaster;
  std::stable_sort(order.begin(), order.end(), [&](const VariantResult* a, const VariantResult* b) {
    if (a->ranked() != b->ranked()) return a->ranked();
    return by_speed && a->ranked() && a->samples_per_s().median() > b->samples_per_s().median();
  });
  return order;
}

// The control's mark survives a cut name.
std::string NameCell(const std::string& name, bool is_control, size_t width) {
  if (!is_control) return Clip(name, width);
  return absl::StrCat(Clip(name, width - 1), "*");
}

std::string Line(const Row& row, const std::array<size_t, kColumns>& width, size_t gap) {
  std::string line;
  for (size_t i = 0; i < kColumns; ++i) {
    const std::string pad(width[i] - std::min(width[i], row[i].size()), ' ');
    absl::StrAppend(&line, i == 0 ? "" : std::string(gap, ' '), kRight[i] ? pad : "", row[i],
                    kRight[i] ? "" : pad);
  }
  absl::StripTrailingAsciiWhitespace(&line);
  return line + "\n";
}

std::string Table(const std::vector<const VariantResult*>& variants) {
  const Units units = UnitsOf(variants);
  const std::string bytes = units.bytes.name;
  std::vector<Row> rows = {{"variant", "samples", absl::StrCat("step ", units.time.name),
                            bytes + " sent", "formula", "busiest", "replicas", "final"},
                           {"", "/s", "p50/p95", "/worker", bytes, "link " + bytes, "", "loss"}};
  std::vector<bool> is_control = {false, false};
  for (const VariantResult* variant : variants) {
    rows.push_back(RowOf(*variant, units));
    is_control.push_back(!variant->ranked());
  }
  std::array<size_t, kColumns> width{};
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < kColumns; ++i) {
      width[i] = std::max(width[i], rows[r][i].size() + (i == 0 && is_control[r] ? 1 : 0));
    }
  }
  size_t others = 0;
  for (size_t i = 1; i < kColumns; ++i) others += width[i];
  const size_t gap = width[0] + others + 2 * (kColumns - 1) <= kWidth ? 2 : 1;
  width[0] = std::min(width[0], kWidth - others - gap * (kColumns - 1));
  std::string table;
  for (size_t r = 0; r < rows.size(); ++r) {
    rows[r][0] = NameCell(rows[r][0], is_control[r], width[0]);
    table += Line(rows[r], width, gap);
  }
  return table;
}

std::string Notes(const std::vector<const VariantResult*>& variants) {
  std::vector<std::string> formulas;
  bool has_control = false;
  for (const VariantResult* variant : variants) {
    has_control = has_control || !variant->ranked();
    if (!variant->ranked() || variant->bytes().formula_text().empty()) continue;
    std::string text = absl::StrCat(variant->id(), " ", variant->bytes().formula_text());
    if (!variant->bytes().server_formula_text().empty()) {
      absl::StrAppend(&text, " (each server ", variant->bytes().server_formula_text(),
                      " in and out)");
    }
    formulas.push_back(text);
  }
  std::string notes =
      Wrap("bytes per step, 1 MB = 10^6 bytes, 1 kB = 10^3; s0 = server 0, w0 = worker 0", "  ");
  if (!formulas.empty()) {
    notes += Wrap(absl::StrCat("formulas: ", absl::StrJoin(formulas, "; ")), "  ");
  }
  if (has_control) notes += "  * control without synchronisation, never ranked\n";
  return notes;
}

std::string ShellQuote(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("_./-=,:", c);
  });
  return plain ? word : absl::StrCat("'", absl::StrJoin(absl::StrSplit(word, '\''), "'\\''"), "'");
}

// Broken with a backslash where needed, so that it can be pasted.
std::string Command(const std::string& spec, const std::vector<std::string>& arguments) {
  std::string command = absl::StrCat("./lockstep compare ", PathText(ShellQuote(spec)));
  std::string line = absl::StrCat("  ", command);
  std::string text;
  for (const std::string& argument : arguments) {
    const std::string word = Ascii(argument);
    constexpr size_t kJoint = 2;  // " \"
    if (line.size() + 1 + word.size() + kJoint > kWidth) {
      absl::StrAppend(&text, line, " \\\n");
      line = absl::StrCat("     ", word);
    } else {
      absl::StrAppend(&line, " ", word);
    }
  }
  return absl::StrCat(text, line, "\n");
}

std::string PathOf(const std::string& assignment) {
  return assignment.substr(0, assignment.find('='));
}

// `set` of the last run without what the next command sets itself; a later one of the same field
// would win, and two are hard to read.
std::vector<std::string> Kept(const std::vector<std::string>& set,
                              const std::vector<std::string>& without) {
  std::vector<std::string> arguments;
  for (const std::string& assignment : set) {
    if (std::find(without.begin(), without.end(), PathOf(assignment)) != without.end()) continue;
    arguments.push_back(absl::StrCat("--set ", ShellQuote(Ascii(assignment))));
  }
  return arguments;
}

// The user's own settings first: the suggestion is what follows them.
std::string Suggestion(const TerminalOptions& options, const std::vector<std::string>& without,
                       const std::vector<std::string>& added) {
  std::vector<std::string> arguments = Kept(options.set, without);
  arguments.insert(arguments.end(), added.begin(), added.end());
  return Command(options.spec.empty() ? "quickstart" : options.spec, arguments);
}

std::string MoreSteps(const RunFile& run) {
  constexpr int64_t kStepsMax = 10'000'000;  // a spec with more is refused
  const int64_t own = run.experiment().steps();
  return absl::StrCat("--set train.steps=",
                      std::max({int64_t{1}, own, std::min(2 * own, kStepsMax)}));
}

// One variant with small buckets; all variants where no name fits into a line.
std::string SmallBuckets(const RunFile& run, const TerminalOptions& options) {
  constexpr size_t kOnlyChars = 30;  // so that the command stays on one line
  const VariantResult* only = nullptr;
  bool has_ranked = false;
  for (const VariantResult& variant : run.runs()) {
    has_ranked = has_ranked || variant.ranked();
    if (variant.ranked() && variant.id().size() <= kOnlyChars) only = &variant;
  }
  if (!has_ranked) return "";  // nothing is sent
  const bool tried =
      std::find(options.set.begin(), options.set.end(), "bucket_cap_mb=0.1") != options.set.end();
  const std::string buckets = absl::StrCat("--set bucket_cap_mb=", tried ? "1" : "0.1");
  std::vector<std::string> without = {"bucket_cap_mb"};
  if (only == nullptr) return Suggestion(options, without, {buckets});
  if (only->servers() == 0) {
    // A spec that gives a server's limit and has no server is refused.
    without.insert(without.end(), {"limits.window_chunks", "limits.staged_bytes_max"});
  }
  return Suggestion(options, without,
                    {absl::StrCat("--only ", ShellQuote(Ascii(only->id()))), buckets});
}

std::string Next(const RunFile& run, const TerminalOptions& options) {
  constexpr int kManyBlocks = 5;  // speed claims stop being preliminary
  const ExperimentInfo& experiment = run.experiment();
  const int blocks = experiment.blocks() < kManyBlocks ? kManyBlocks : 2 * experiment.blocks();
  // Half the workers divide any batch that all of them divided.
  const bool halves = experiment.workers() > 2 && experiment.workers() % 2 == 0;
  return absl::StrCat(
      "Try next:\n", Suggestion(options, {"blocks"}, {absl::StrCat("--blocks ", blocks)}),
      halves ? Suggestion(options, {"workers"},
                          {absl::StrCat("--set workers=", experiment.workers() / 2)})
             : Suggestion(options, {"train.steps"}, {MoreSteps(run)}),
      SmallBuckets(run, options));
}

// After a failure the next thing to read are the logs, not another sweep.
std::string Ending(const RunFile& run, const TerminalOptions& options) {
  if (run.verdict().rule() != kRuleStopped) return absl::StrCat("\n", Next(run, options));
  if (options.logs_path.empty()) return "";
  return absl::StrCat("\nLogs: ", PathText(options.logs_path), "\n");
}

}  // namespace

std::string RenderTerminal(const RunFile& run, const TerminalOptions& options) {
  const std::vector<const VariantResult*> variants = InOrder(run);
  std::string text = Wrap(run.verdict().head(), "");
  if (!run.verdict().why().empty()) absl::StrAppend(&text, "\n", Wrap(run.verdict().why(), ""));
  if (!variants.empty()) absl::StrAppend(&text, "\n", Table(variants), Notes(variants));
  absl::StrAppend(&text, "\n", Wrap(run.verdict().caveat(), ""));
  if (!options.report_path.empty()) {
    absl::StrAppend(&text, "\nReport:\n  ", PathText(options.report_path), "\n");
  }
  absl::StrAppend(&text, Ending(run, options));
  return text;
}

}  // namespace lockstep
