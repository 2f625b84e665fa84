// markup.h: the HTML of tables, picture frames and a variant's name, shared by all sections.
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
  std::string label;  // for people, told apart by workers where they were swept
};

// The variant's name in the spec, as the verdict calls it.
std::string NameOf(const VariantResult& result);

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

// One row: `cells` are those of the columns after the first, which holds the variant.
std::string Row(const PageRow& row, const std::vector<Column>& columns,
                const std::vector<std::string>& cells);

// Heading and first sentence of a section, which the caller ends with </section>.
std::string SectionOpen(std::string_view id, std::string_view title, std::string_view sub);

// A picture, drawn by the page's script into <figure id="`id`">, and its numbers, which say the
// same without it. The picture's title is the section's heading.
struct Picture {
  std::string id;
  std::string description;   // what it shows, for those who do not see it
  std::string numbers_html;  // a table with the id `id`-numbers
};
std::string PictureHtml(const Picture& picture);

// A sentence under a table; nothing for an empty one.
std::string Note(std::string_view text);

// Smaller and quieter text beside a value.
std::string Quiet(std::string_view text);

// "1,171–1,199"; empty where one block can't give an interval.
std::string RangeText(const Interval& interval);

// "1 block", "3 blocks".
std::string Plural(double count, std::string_view word);

}  // namespace lockstep
