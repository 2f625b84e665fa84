#include "experiments/analyse/host_links.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "experiments/analyse/format.h"

namespace lockstep {
namespace {

constexpr double kTie = 1e-9;  // relative
// Largest over mean, up to which shares are spoken of as equal: what a count may be off by.
constexpr double kEqualMax = 1.01;

double PerStep(double bytes, const Count& count) {
  return count.steps > 0 ? bytes / count.steps : 0;
}

// With shares that are equal as far as anybody promises.
std::string EqualText(const ServerHosts& hosts, double n, double servers, const Host& host) {
  if (host.servers.empty()) return "S";
  if (host.worker.has_value()) return servers == n ? "2(n-1)/n S" : "(1 + (n-2)/s) S";
  const auto here = static_cast<double>(host.servers.size());
  if (hosts.hosts == Ps::OWN) return "n S / s";
  return here == servers ? "n S" : absl::StrCat("n ", here, " S / s");
}

}  // namespace

ServerHosts ServerHostsOf(const Ps& ps) {
  return {.hosts = ps.hosts(), .servers_per_host = ps.servers_per_host()};
}

std::vector<Host> HostsOf(const ServerHosts& hosts, int workers, int servers) {
  std::vector<Host> all;
  if (hosts.hosts == Ps::COLOCATED) {
    for (int i = 0; i < workers; ++i) {
      Host host{.name = absl::StrCat(i < servers ? "host " : "worker ", i), .worker = i};
      if (i < servers) host.servers.push_back(i);
      all.push_back(std::move(host));
    }
    return all;
  }
  const int together = hosts.hosts == Ps::OWN        ? 1
                       : hosts.servers_per_host == 0 ? std::max(1, servers)
                                                     : hosts.servers_per_host;
  for (int k = 0; k < servers; ++k) {
    if (k % together == 0) {
      const bool own = hosts.hosts == Ps::OWN;
      all.push_back(
          {.name = absl::StrCat(own ? "server " : "host ", k / together), .worker = std::nullopt});
    }
    all.back().servers.push_back(k);
  }
  for (int i = 0; i < workers; ++i) {
    all.push_back({.name = absl::StrCat("worker ", i), .worker = i});
  }
  return all;
}

LinkLoad BusiestLinkOf(const ServerHosts& hosts, int workers, const std::vector<double>& shares,
                       double gradient_bytes) {
  const auto n = static_cast<double>(workers);
  const auto servers = static_cast<double>(shares.size());
  const bool balanced = *std::max_element(shares.begin(), shares.end()) * servers <= kEqualMax;
  LinkLoad busiest;
  for (const Host& host : HostsOf(hosts, workers, static_cast<int>(shares.size()))) {
    double here = 0;  // share of its servers
    for (const int k : host.servers) here += shares[static_cast<size_t>(k)];
    const double beside = host.worker.has_value() ? 1 : 0;
    const double bytes = (beside * (1 - here) + (n - beside) * here) * gradient_bytes;
    // Of equals the plainest formula: a worker's.
    const double least = busiest.bytes * (host.servers.empty() ? 1 - kTie : 1 + kTie);
    if (!busiest.text.empty() && bytes < least) continue;
    busiest.bytes = bytes;
    busiest.text = balanced || host.servers.empty()
                       ? EqualText(hosts, n, servers, host)
                       : absl::StrCat(beside > 0 ? "(1 + (n-2) " : "n ", Significant(here, 3),
                                      beside > 0 ? ") S, " : " S, ", host.name);
  }
  return busiest;
}

std::vector<LinkCount> CountLinks(const ServerHosts& hosts, const RoleCount& workers,
                                  const RoleCount& servers) {
  const auto n = static_cast<double>(workers.member.size());
  std::vector<LinkCount> links;
  for (const Host& host : HostsOf(hosts, static_cast<int>(workers.member.size()),
                                  static_cast<int>(servers.member.size()))) {
    LinkCount link{.name = host.name};
    if (host.worker.has_value()) {
      const Count& count = workers.member[static_cast<size_t>(*host.worker)];
      link.in += PerStep(count.in, count);
      link.out += PerStep(count.out, count);
    }
    for (const int k : host.servers) {
      const Count& count = servers.member[static_cast<size_t>(k)];
      const double local = host.worker.has_value() ? PerStep(count.in + count.out, count) / n : 0;
      link.in += PerStep(count.in, count) - local;
      link.out += PerStep(count.out, count) - local;
    }
    links.push_back(std::move(link));
  }
  return links;
}

}  // namespace lockstep
