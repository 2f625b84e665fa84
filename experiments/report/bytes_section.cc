// What the links carried: the busiest one as a picture, all of them beside their formulas.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "experiments/report/findings.h"
#include "experiments/report/html.h"
#include "experiments/report/number.h"
#include "experiments/report/sections.h"

namespace lockstep {
namespace {

constexpr char kBytesSub[] =
    "Per step, one direction. Every byte handed to a socket or to gRPC counts, our own headers "
    "included; headers of TCP and HTTP/2 do not.";

// One line of the byte table: what an endpoint of a variant carries in one step.
struct ByteLine {
  std::string endpoint;
  std::string formula_text;
  double formula = 0;
  double out = 0;
  double in = 0;
  double worst = 0;  // of out and in, where the formula speaks about both: the one further off
};

std::string CountText(const VariantResult& result, double bytes) {
  return result.has_bytes() ? FormatCount(bytes) : kNotMeasured;
}

std::vector<ByteLine> ByteLines(const VariantResult& result) {
  const BytesResult& bytes = result.bytes();
  std::vector<ByteLine> lines = {{.endpoint = "each worker",
                                  .formula_text = bytes.formula_text(),
                                  .formula = bytes.formula(),
                                  .out = bytes.tx_per_worker_step(),
                                  .in = bytes.rx_per_worker_step(),
                                  .worst = bytes.tx_per_worker_step()}};
  if (bytes.has_server_in_per_step() || bytes.has_server_out_per_step()) {
    const double in = bytes.server_in_per_step();
    const double out = bytes.server_out_per_step();
    const bool in_worse =
        std::abs(in - bytes.server_formula()) > std::abs(out - bytes.server_formula());
    lines.push_back({.endpoint = "each server",
                     .formula_text = bytes.server_formula_text(),
                     .formula = bytes.server_formula(),
                     .out = out,
                     .in = in,
                     .worst = in_worse ? in : out});
  }
  return lines;
}

std::string DifferenceText(const VariantResult& result, const ByteLine& line) {
  if (!result.has_bytes()) return kNotMeasured;
  if (line.formula > 0) return FormatSignedShare(line.worst / line.formula - 1);
  return line.worst == 0 ? FormatSignedShare(0) : kNotMeasured;
}

std::string BytesNote(const PageView& view) {
  std::string apart;
  for (const PageRow& row : view.rows) {
    absl::StrAppend(&apart, apart.empty() ? "" : ", ", row.result->id(), " ",
                    FormatBytes(row.result->bytes().set_up()));
  }
  return Note(
      absl::StrCat("n workers, s servers, S = ", FormatCount(view.run->model().gradient_bytes()),
                   " bytes of gradients. Start-up, call check, ping-pong, start values and "
                   "probe are counted apart, over a whole run: ",
                   apart, "."));
}

std::string EndpointText(const Busiest& busiest) {
  return absl::StrCat(busiest.node(), " ", busiest.direction());
}

bool HasBusiest(const VariantResult& result) { return !result.busiest().node().empty(); }

std::string BusiestText(const PageView& view) {
  std::vector<std::string> parts;
  for (const PageRow& row : view.rows) {
    const Busiest& busiest = row.result->busiest();
    if (!HasBusiest(*row.result)) continue;
    parts.push_back(absl::StrCat(row.label, " ", FormatBytes(busiest.bytes_per_step()), ", ",
                                 EndpointText(busiest), busiest.formula() > 0 ? ", formula " : "",
                                 busiest.formula() > 0 ? FormatBytes(busiest.formula()) : ""));
  }
  return absl::StrCat(
      "Bytes of a step on the busiest link, one direction: ", absl::StrJoin(parts, "; "), ".");
}

std::string BusiestPicture(const PageView& view) {
  const std::vector<Column> columns = {{"Synchronisation"}, {"Busiest endpoint", "text"},
                                       {"Formula", "text"}, {"Formula’s value", "num"},
                                       {"Measured", "num"}, {"Off by", "num"}};
  std::string rows;
  for (const PageRow& row : view.rows) {
    if (!HasBusiest(*row.result)) continue;
    const Busiest& busiest = row.result->busiest();
    const bool lawful = busiest.formula() > 0;
    absl::StrAppend(
        &rows, Row(row, columns,
                   {Escape(EndpointText(busiest)),
                    busiest.formula_text().empty() ? kNotMeasured : Escape(busiest.formula_text()),
                    lawful ? FormatBytes(busiest.formula()) : kNotMeasured,
                    FormatBytes(busiest.bytes_per_step()),
                    lawful ? FormatSignedShare(busiest.bytes_per_step() / busiest.formula() - 1)
                           : kNotMeasured}));
  }
  if (rows.empty()) return "";
  return PictureHtml(
      {.id = "busiest",
       .description = BusiestText(view),
       .numbers_html = absl::StrCat(TableOpen("busiest-numbers", "busiest-title", columns), rows,
                                    TableClose())});
}

std::string EndpointsTable(const PageView& view) {
  const std::vector<Column> columns = {{"Synchronisation"},    {"Endpoint", "text"},
                                       {"Formula", "text"},    {"Formula’s value", "num"},
                                       {"Counted out", "num"}, {"Counted in", "num"},
                                       {"Off by", "num"}};
  std::string out = TableOpen("bytes", "busiest-title", columns);
  for (const PageRow& row : view.rows) {
    for (const ByteLine& line : ByteLines(*row.result)) {
      absl::StrAppend(
          &out,
          Row(row, columns,
              {line.endpoint, line.formula_text.empty() ? kNotMeasured : Escape(line.formula_text),
               CountText(*row.result, line.formula), CountText(*row.result, line.out),
               CountText(*row.result, line.in), DifferenceText(*row.result, line)}));
    }
  }
  return out + TableClose();
}

}  // namespace

std::string BytesHtml(const PageView& view) {
  if (view.rows.empty()) return "";
  const std::string picture = BusiestPicture(view);
  if (picture.empty()) {
    return absl::StrCat(SectionOpen("busiest", "Bytes, counted beside the formula", kBytesSub),
                        EndpointsTable(view), BytesNote(view), "</section>\n");
  }
  const std::string sub = absl::StrCat(
      "Bytes in a step through the endpoint that carries most, one direction, by count. Mark: "
      "measured. ",
      view.swept ? "Thin line: formula" : "Upright line: formula, written under the name",
      "; n workers, s servers, S the gradients. Counts do not depend on the host’s speed.");
  return absl::StrCat(SectionOpen("busiest", BusiestFinding(view), sub), picture,
                      "<details><summary>All endpoints, counted beside their formulas</summary>\n",
                      Note(kBytesSub), EndpointsTable(view), BytesNote(view),
                      "</details>\n</section>\n");
}

}  // namespace lockstep
