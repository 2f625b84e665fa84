#include "experiments/report/markup.h"

#include "absl/strings/str_cat.h"
#include "experiments/report/html.h"
#include "experiments/report/number.h"

namespace lockstep {
namespace {

std::string ClassAttribute(std::string_view style) {
  return style.empty() ? "" : absl::StrCat(" class=\"", std::string(style), "\"");
}

}  // namespace

std::string TableOpen(std::string_view id, std::string_view labelled_by,
                      const std::vector<Column>& columns) {
  std::string out =
      absl::StrCat("<table id=\"", std::string(id), "\" role=\"table\" aria-labelledby=\"",
                   std::string(labelled_by), "\">\n<thead role=\"rowgroup\"><tr role=\"row\">");
  for (const Column& column : columns) {
    absl::StrAppend(&out, "<th scope=\"col\" role=\"columnheader\"", ClassAttribute(column.style),
                    ">", Escape(column.label), "</th>");
  }
  absl::StrAppend(&out, "</tr></thead>\n<tbody role=\"rowgroup\">\n");
  return out;
}

std::string TableClose() { return "</tbody></table>\n"; }

std::string RowOpen(const PageRow& row) {
  const VariantResult& result = *row.result;
  std::string out = absl::StrCat(
      "<tr role=\"row\" data-run=\"", row.index, "\" class=\"", row.series.style,
      "\"><th scope=\"row\" role=\"rowheader\">", MarkerHtml(row.series), "<span class=\"name\">",
      Escape(result.label().empty() ? result.id() : result.label()), "</span>");
  if (!result.ranked()) absl::StrAppend(&out, " <span class=\"tag\">control</span>");
  if (!result.complete()) absl::StrAppend(&out, " <span class=\"tag bad\">incomplete</span>");
  absl::StrAppend(&out, "</th>");
  return out;
}

std::string RowClose() { return "</tr>\n"; }

std::string Cell(const Column& column, std::string_view html) {
  return absl::StrCat("<td role=\"cell\"", ClassAttribute(column.style), " data-label=\"",
                      Escape(column.label), "\">", std::string(html), "</td>");
}

std::string Quiet(std::string_view text) {
  return absl::StrCat("<span class=\"quiet\">", Escape(text), "</span>");
}

std::string Plural(double count, std::string_view word) {
  return absl::StrCat(FormatCount(count), " ", std::string(word), count == 1 ? "" : "s");
}

}  // namespace lockstep
