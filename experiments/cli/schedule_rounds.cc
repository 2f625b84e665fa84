#include "experiments/cli/schedule_rounds.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "allreduce/schedule/layout.h"
#include "allreduce/schedule/machine.h"

namespace lockstep {
namespace {

constexpr size_t kColumnsMax = 80;
constexpr size_t kNameColumns = 10;  // "rank 4095 "
constexpr char kLegend[] =
    "A round is every move whose message was sent in an earlier round. A cell: how\n"
    "many ranks' inputs are summed in what the rank holds of the chunk, '.': nothing;\n"
    "'1>2': it holds one, and has sent on a sum of two; '1>': has sent what it holds.\n";

// Adjacent chunks that look alike on every rank may share a column.
struct Column {
  int32_t first = 0;
  int32_t last = 0;
  std::vector<std::string> cells;  // [row]
};

class RoundTable {
 public:
  RoundTable(const Schedule& schedule, int64_t elements)
      : schedule_(schedule),
        layout_{.count = elements,
                .chunks = schedule.chunks,
                .tile_elements = std::numeric_limits<int64_t>::max()},
        rows_(std::min(schedule.world_size, kRoundRanksMax)) {}

  std::string Render(const VerifyMachine& machine) const {
    std::vector<Column> columns = Columns(machine);
    if (Width(columns) > kColumnsMax) columns = Merged(std::move(columns));
    size_t shown = columns.size();
    while (Width({columns.begin(), columns.begin() + static_cast<std::ptrdiff_t>(shown)}) >
           kColumnsMax) {
      --shown;
    }
    std::string text = Line("chunk", columns, shown, Label);
    if (layout_.count > 0) {
      text += Line("elements", columns, shown, [&](const Column& column) { return Sizes(column); });
    }
    for (size_t row = 0; row < static_cast<size_t>(rows_); ++row) {
      text += Line(absl::StrCat("rank ", row), columns, shown,
                   [&](const Column& column) { return column.cells[row]; });
    }
    if (rows_ < schedule_.world_size) {
      absl::StrAppend(&text, "(ranks ", rows_, "..", schedule_.world_size - 1, " are left out)\n");
    }
    if (shown < columns.size()) {
      absl::StrAppend(&text, "(chunks ", columns[shown].first, "..", schedule_.chunks - 1,
                      " are left out)\n");
    }
    return text;
  }

 private:
  std::vector<Column> Columns(const VerifyMachine& machine) const {
    const std::vector<std::vector<int32_t>> under_way = machine.InputsUnderWay();
    std::vector<Column> columns;
    for (int32_t chunk = 0; chunk < schedule_.chunks; ++chunk) {
      columns.push_back({chunk, chunk, {}});
      for (int32_t rank = 0; rank < rows_; ++rank) {
        const int32_t held = machine.InputsAt(rank, chunk);
        const int32_t sent = under_way[static_cast<size_t>(rank)][static_cast<size_t>(chunk)];
        std::string cell = held == 0 ? "." : absl::StrCat(held);
        if (sent != 0) absl::StrAppend(&cell, ">", sent == held ? "" : absl::StrCat(sent));
        columns.back().cells.push_back(std::move(cell));
      }
    }
    return columns;
  }

  std::string Sizes(const Column& column) const {
    return absl::StrCat(layout_.ElementsOf(column.first, column.last - column.first + 1, 0));
  }
  static std::string Label(const Column& column) {
    return column.first == column.last ? absl::StrCat(column.first)
                                       : absl::StrCat(column.first, "..", column.last);
  }

  static std::vector<Column> Merged(std::vector<Column> columns) {
    std::vector<Column> merged;
    for (Column& column : columns) {
      if (!merged.empty() && merged.back().cells == column.cells) {
        merged.back().last = column.last;
      } else {
        merged.push_back(std::move(column));
      }
    }
    return merged;
  }

  size_t Width(const Column& column) const {
    size_t width = std::max(Label(column).size(), layout_.count > 0 ? Sizes(column).size() : 0);
    for (const std::string& cell : column.cells) width = std::max(width, cell.size());
    return width;
  }
  size_t Width(const std::vector<Column>& columns) const {
    size_t width = kNameColumns;
    for (const Column& column : columns) width += Width(column) + 2;
    return columns.empty() ? width : width - 2;
  }

  template <typename CellOf>
  std::string Line(const std::string& name, const std::vector<Column>& columns, size_t shown,
                   const CellOf& cell_of) const {
    std::string line = absl::StrFormat("%-*s", static_cast<int>(kNameColumns), name);
    for (size_t i = 0; i < shown; ++i) {
      absl::StrAppendFormat(&line, "%-*s", static_cast<int>(Width(columns[i]) + 2),
                            cell_of(columns[i]));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line + "\n";
  }

  const Schedule& schedule_;
  const ChunkLayout layout_;
  const int32_t rows_;
};

}  // namespace

std::string RenderRounds(const Schedule& schedule, const Goal& goal, int64_t elements) {
  VerifyReport ignored;
  VerifyMachine machine(schedule, goal, &ignored);
  const RoundTable table(schedule, elements);
  std::string text = kLegend;
  std::string last;
  int32_t round = 0;
  while (machine.RunRound()) {
    last = absl::StrCat("\nafter round ", round, round == 0 ? ", the first sends" : "", "\n",
                        table.Render(machine));
    if (++round <= kRoundTablesMax) text += last;
  }
  if (round == 0) absl::StrAppend(&text, "\nnothing moves\n", table.Render(machine));
  if (round > kRoundTablesMax) {
    absl::StrAppend(&text, "\n(rounds ", kRoundTablesMax, "..", round - 2, " are left out)\n",
                    last);
  }
  return text;
}

}  // namespace lockstep
