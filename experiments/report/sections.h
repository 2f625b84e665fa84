// sections.h: the parts of the page that are real HTML: readable without JavaScript, in a mail
// preview or by a search. Every text of the run file is escaped. A value that was not measured
// reads "–". Claims come from the run file's verdict; what is written here is neutral. Pure.
#pragma once

#include <string>
#include <vector>

#include "experiments/report/markup.h"
#include "proto/record.pb.h"

namespace lockstep {

// The run file in the order of the page. `run` must outlive it.
struct PageView {
  const RunFile* run = nullptr;
  std::vector<PageRow> rows;  // ranked before controls; fastest first where the verdict decided it
};
PageView MakeView(const RunFile& run);

// The headline as plain text, also the page's title.
std::string Headline(const RunFile& run);
// "wall clock": what every picture says about its times.
std::string TimeBaseText(const RunFile& run);

std::string HeadHtml(const PageView& view);      // verdict, facts, caveat, failures
std::string TableHtml(const PageView& view);     // one row per variant
std::string ChartHtml(const PageView& view);     // frame of the throughput chart and its numbers
std::string BytesHtml(const PageView& view);     // counted beside the formula
std::string ReplicasHtml(const PageView& view);  // do the copies stay the same?
std::string MethodHtml(const PageView& view);    // data and method

}  // namespace lockstep
