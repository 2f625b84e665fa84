#include "ps_server/service/books.h"

#include <algorithm>
#include <utility>

namespace lockstep {
namespace {

// The step that a frame is about; 0 for start-up and start values.
int64_t StepOf(const PsFrame& header) {
  switch (header.kind()) {
    case PUSH:
    case PULL:
    case PARAMETERS:
      return header.step();
    default:
      return 0;
  }
}

}  // namespace

void Books::Open(PsMode mode, int32_t world_size) {
  mode_ = mode;
  started_.assign(static_cast<size_t>(world_size), false);
  accounts_.resize(mode == PsMode::kSync ? 1 : started_.size());
}

void Books::Book(const PsFrame& header, const Traffic& traffic) {
  const int64_t step = StepOf(header);
  if (step > 0) {
    Account& account = AccountOf(header.worker());
    // A late frame of a step whose event is out changes no event.
    if (step > account.reported_step) {
      account.steps[step] += traffic;
      return;
    }
  }
  outside_ += traffic;
}

void Books::Apply(UpdateServed served) {
  // Whoever pushes has the start values.
  for (const WorkerSpan& push : served.update.pushes) Started(push.worker);
  Account& account = AccountOf(served.update.worker.value_or(0));
  Report(&account);
  account.owed.clear();
  for (const WorkerSpan& push : served.update.pushes) account.owed.push_back(push.worker);
  account.served = std::move(served);
}

void Books::Touch(const PsFrame& header, int64_t now_ns) {
  if (header.kind() != PARAMETERS || header.step() == 0) return;
  std::optional<UpdateServed>& served = AccountOf(header.worker()).served;
  if (!served.has_value() || served->update.step != header.step()) return;
  const auto known =
      std::find_if(served->replies.begin(), served->replies.end(),
                   [&](const WorkerSpan& span) { return span.worker == header.worker(); });
  if (known == served->replies.end()) {
    served->replies.push_back({header.worker(), now_ns, now_ns});
  } else {
    known->end_ns = now_ns;
  }
}

void Books::Replied(int32_t worker, int64_t step) {
  if (step == 0) return Started(worker);
  Account& account = AccountOf(worker);
  if (!account.served.has_value() || account.served->update.step != step) return;
  account.owed.erase(std::remove(account.owed.begin(), account.owed.end(), worker),
                     account.owed.end());
  if (account.owed.empty()) Report(&account);
}

void Books::Started(int32_t worker) {
  started_[static_cast<size_t>(worker)] = true;
  if (std::count(started_.begin(), started_.end(), false) == 0) ReportSetUp();
}

void Books::ReportSetUp() {
  if (set_up_reported_ || accounts_.empty()) return;
  set_up_reported_ = true;
  reported_set_up_ = outside_;
  if (events_.set_up) events_.set_up(outside_);
}

void Books::Report(Account* account) {
  if (!account->served.has_value()) return;
  UpdateServed served = *std::exchange(account->served, std::nullopt);
  account->reported_step = served.update.step;
  const auto book = account->steps.extract(served.update.step);
  if (!book.empty()) served.traffic = book.mapped();
  served.duplicates = duplicates_ - std::exchange(reported_duplicates_, duplicates_);
  reported_updates_ += served.traffic;
  if (events_.update) events_.update(served);
}

void Books::Close() {
  ReportSetUp();
  for (Account& account : accounts_) Report(&account);
}

Traffic Books::traffic() const {
  Traffic sum = outside_;
  sum += reported_updates_;
  for (const Account& account : accounts_) {
    for (const auto& [step, traffic] : account.steps) sum += traffic;
  }
  return sum;
}

}  // namespace lockstep
