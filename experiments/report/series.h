// series.h: how a variant looks everywhere on the page: colour, marker shape, fill and dash, so
// that colour never speaks alone. Ring is always the blue circle, one server always the brown
// cross, and so on; a second variant of a kind has its colour and shape, hollow, with another dash.
// A variant keeps its look over all numbers of workers. Pure.
#pragma once

#include <string>
#include <vector>

#include "proto/record.pb.h"

namespace lockstep {

struct Series {
  std::string
      style;  // CSS classes: s0..s5 (colour and dash), "alt" beside it (hollow); sc: control
  std::string marker;  // SVG path in the box -8..8
};

// One per run, in the order of the run file; no two variants alike among the first 36.
std::vector<Series> AssignSeries(const RunFile& run);

// The marker as an inline drawing, hidden from screen readers: the label stands beside it.
std::string MarkerHtml(const Series& series);

}  // namespace lockstep
