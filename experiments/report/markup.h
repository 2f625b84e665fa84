// markup.h: the HTML of tables and of a variant's name, shared by all sections.
// Every table carries roles beside its elements: on a phone style.css turns rows into blocks, and a
// browser then forgets what the elements meant. Texts named `html` are taken as they are, all
// others are escaped here. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiments/report/series.h"
#include "proto/record.pb.h"

namespace lockstep {

// One variant on the page. `result` points into the run file, `index` is its place there.
struct PageRow {
  const VariantResult* result = nullptr;
  int index = 0;
  Series series;
};

struct Column {
  std::string label;       // head of the column, and before the value on a phone
  std::string style = {};  // "num": numbers, set to the right
};

// <table> with its head row; TableClose ends it. `labelled_by`: id of the heading.
std::string TableOpen(std::string_view id, std::string_view labelled_by,
                      const std::vector<Column>& columns);
std::string TableClose();

// <tr> with the variant as its head, after which the cells of the other columns follow.
std::string RowOpen(const PageRow& row);
std::string RowClose();
std::string Cell(const Column& column, std::string_view html);

// Smaller and quieter text beside a value.
std::string Quiet(std::string_view text);

// "1 block", "3 blocks".
std::string Plural(double count, std::string_view word);

}  // namespace lockstep
