#include "experiments/report/series.h"

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

constexpr size_t kStyles = 6;
// In the order of the palette in style.css: ring, one server, asynchronous, several servers, tree,
// naive.
constexpr std::array<const char*, kStyles> kMarkers = {
    "M-6 0a6 6 0 1 0 12 0a6 6 0 1 0-12 0z",  // circle
    "M-2-7h4v5h5v4h-5v5h-4v-5h-5v-4h5z",     // cross
    "M-6.5-5.5h13L0 6.5z",                   // triangle down
    "M-6.5 5.5h13L0-6.5z",                   // triangle up
    "M0-7.5L6.5 0 0 7.5-6.5 0z",             // diamond
    "M-5.5-5.5h11v11h-11z",                  // square
};
constexpr const char* kControlMarker = "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z";

size_t KindOf(const VariantResult& result) {
  // The server's exchange is one kind, whether gRPC or the collectives' executor carries it.
  if (result.mode() == "ps_sync" || result.algorithm() == "ps_exchange") {
    return result.servers() > 1 ? 3 : 1;
  }
  if (result.mode().rfind("ps", 0) == 0) return 2;
  if (result.algorithm().find("tree") != std::string::npos) return 4;
  if (result.algorithm() == "naive") return 5;
  return 0;
}

// Hands out looks, each once: solid ones of the six styles, hollow ones of any colour and shape.
class Looks {
 public:
  Series TakeOwn(size_t kind) {
    if (const auto solid = TakeSolid(kind)) return *solid;
    if (const auto hollow = TakeHollow(kind, kind)) return *hollow;
    return {};
  }
  // The kind's own looks are gone: another style as it is, then other shapes of its colour.
  Series TakeAny(size_t kind) {
    for (size_t i = 0; i < kStyles; ++i) {
      if (const auto solid = TakeSolid(i)) return *solid;
    }
    for (size_t i = 0; i < kStyles * kStyles; ++i) {
      const size_t color = (kind + i / kStyles) % kStyles;
      if (const auto hollow = TakeHollow(color, (color + i) % kStyles)) return *hollow;
    }
    return Hollow(kind, kind);  // more variants than looks
  }

 private:
  static Series Hollow(size_t color, size_t shape) {
    return {absl::StrCat("s", color, " alt"), kMarkers[shape]};
  }
  std::optional<Series> TakeSolid(size_t kind) {
    if (!taken_.insert({kind, kStyles}).second) return std::nullopt;
    return Series{absl::StrCat("s", kind), kMarkers[kind]};
  }
  std::optional<Series> TakeHollow(size_t color, size_t shape) {
    if (!taken_.insert({color, shape}).second) return std::nullopt;
    return Hollow(color, shape);
  }

  std::set<std::pair<size_t, size_t>> taken_;  // colour and hollow shape; kStyles: solid
};

// The same variant at several numbers of workers is one series.
std::string KeyOf(const VariantResult& result) {
  return absl::StrCat(result.variant().empty() ? result.id() : result.variant(), " ",
                      result.servers());
}

}  // namespace

std::vector<Series> AssignSeries(const RunFile& run) {
  Looks looks;
  std::map<std::string, Series> of_key;
  std::vector<const VariantResult*> waiting;  // both looks of their kind went to earlier variants
  for (const VariantResult& result : run.runs()) {
    Series& series = of_key[KeyOf(result)];
    if (!series.style.empty()) continue;
    series = result.ranked() ? looks.TakeOwn(KindOf(result)) : Series{"sc", kControlMarker};
    if (series.style.empty()) waiting.push_back(&result);
  }
  for (const VariantResult* result : waiting) {
    Series& series = of_key[KeyOf(*result)];
    if (series.style.empty()) series = looks.TakeAny(KindOf(*result));
  }
  std::vector<Series> series;
  series.reserve(static_cast<size_t>(run.runs_size()));
  for (const VariantResult& result : run.runs()) series.push_back(of_key[KeyOf(result)]);
  return series;
}

std::string MarkerHtml(const Series& series) {
  return absl::StrCat("<svg class=\"mk ", series.style,
                      "\" viewBox=\"-8 -8 16 16\" aria-hidden=\"true\"><path d=\"", series.marker,
                      "\"/></svg>");
}

}  // namespace lockstep
