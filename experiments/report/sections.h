// sections.h: the parts of the page that are real HTML: readable without JavaScript, in a mail
// preview or by a search. Every text of the run file is escaped. A value that was not measured
// reads "–". A section whose data are absent is the empty string. The headline comes from the run
// file's verdict, other claims from findings.h; what is written here is neutral. Pure.
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
  std::vector<PageRow> largest;  // those of the largest number of workers: pictures of one size
  bool swept = false;            // more than one number of workers
};
PageView MakeView(const RunFile& run);
std::vector<const VariantResult*> ResultsOf(const std::vector<PageRow>& rows);

// Files of the run that lie beside the page, e.g. "trace.json".
using FileNames = std::vector<std::string>;
FileNames RunFileNames();  // those that FilesHtml can explain

// The headline as plain text, also the page's title.
std::string Headline(const RunFile& run);
// "wall clock": what every picture says about its times.
std::string TimeBaseText(const RunFile& run);
// The time base, and that the processors were the limit where they were.
std::string TimeCaveat(const RunFile& run);
// " At 4 workers." where several numbers of workers were measured and a picture shows one.
std::string SizeText(const PageView& view);

std::string HeadHtml(const PageView& view);        // verdict, facts, caveat, failures
std::string TableHtml(const PageView& view);       // one row per variant
std::string ThroughputHtml(const PageView& view);  // picture 1, by workers where they were swept
std::string AnatomyHtml(const PageView& view);     // picture 4
std::string PredictionHtml(const PageView& view);  // model beside measurement
std::string BytesHtml(const PageView& view);       // picture 2, counted beside the formula
std::string BalanceHtml(const PageView& view);     // what each parameter server holds
std::string LoadHtml(const PageView& view);        // picture 15, by the second
std::string ReplicasHtml(const PageView& view);    // picture 5, and how synchronous it was
std::string SameBitsHtml(const PageView& view);    // which ways end alike, and why
std::string StalenessHtml(const PageView& view);   // picture 6
std::string RecoveryHtml(const PageView& view);    // what losses cost
std::string PushesHtml(const PageView& view);      // ps_k_of_n: accepted and dropped
std::string LossHtml(const PageView& view);        // picture 7, losses at equal budgets, target
std::string MethodHtml(const PageView& view);      // data and method
std::string FilesHtml(const FileNames& files);     // what else the run wrote

}  // namespace lockstep
