#include "experiments/report/markup.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
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

std::string NameOf(const VariantResult& result) {
  return result.variant().empty() ? result.id() : result.variant();
}

std::string RowOpen(const PageRow& row) {
  const VariantResult& result = *row.result;
  std::string out =
      absl::StrCat("<tr role=\"row\" data-run=\"", row.index, "\" data-name=\"",
                   Escape(NameOf(result)), "\" class=\"", row.series.style,
                   "\"><th scope=\"row\" role=\"rowheader\">", MarkerHtml(row.series));
  if (row.label == result.id()) {
    absl::StrAppend(&out, "<span class=\"name\">", Escape(row.label), "</span>");
  } else {  // on paper the id alone names the rows of all tables but the first
    absl::StrAppend(&out, "<span class=\"name long\">", Escape(row.label),
                    "</span> <span class=\"quiet id\">", Escape(result.id()), "</span>");
  }
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

std::string Row(const PageRow& row, const std::vector<Column>& columns,
                const std::vector<std::string>& cells) {
  CHECK(cells.size() + 1 == columns.size());
  std::string out = RowOpen(row);
  for (size_t i = 0; i < cells.size(); ++i) out += Cell(columns[i + 1], cells[i]);
  return out + RowClose();
}

std::string SectionOpen(std::string_view id, std::string_view title, std::string_view sub) {
  return absl::StrCat("<section aria-labelledby=\"", std::string(id), "-title\">\n<h2 id=\"",
                      std::string(id), "-title\">", Escape(title), "</h2>\n",
                      sub.empty() ? "" : "<p class=\"sub\">", Escape(sub),
                      sub.empty() ? "" : "</p>\n");
}

std::string PictureHtml(const Picture& picture) {
  return absl::StrCat("<figure id=\"", picture.id, "\" data-description=\"",
                      Escape(picture.description),
                      "\"></figure>\n<noscript><p class=\"note\">The picture needs JavaScript; "
                      "its numbers are below.</p></noscript>\n"
                      "<details><summary>The numbers of this picture</summary>\n",
                      picture.numbers_html, "</details>\n");
}

std::string Note(std::string_view text) {
  return text.empty() ? "" : absl::StrCat("<p class=\"note\">", Escape(text), "</p>\n");
}

std::string Quiet(std::string_view text) {
  return absl::StrCat("<span class=\"quiet\">", Escape(text), "</span>");
}

std::string RangeText(const Interval& interval) {
  if (interval.n() < 2) return "";
  return absl::StrCat(FormatValue(interval.low()), "–", FormatValue(interval.high()));
}

std::string Plural(double count, std::string_view word) {
  return absl::StrCat(FormatCount(count), " ", std::string(word), count == 1 ? "" : "s");
}

}  // namespace lockstep
