// host_links.h: what the links of hosts carry where parameter servers have hosts of their own,
// share some, or run beside workers. Each worker sends every server its share of S and receives as
// much. What a worker and a server of one host say to each other crosses no link. So with n
// workers, s servers of equal shares, one direction, the busiest carries
//   OWN         max(S, n S / s)
//   SHARED      max(S, n m S / s), m servers on a host
//   COLOCATED   (1 + (n-2) / s) S; s = n: 2(n-1)/n S, a ring's
// and where shares differ, what its own servers' shares say. Pure.
// Theory: BytePS, OSDI 2020.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/analyse/traffic_count.h"
#include "proto/experiment.pb.h"

namespace lockstep {

struct ServerHosts {
  Ps::Hosts hosts = Ps::OWN;
  int servers_per_host = 0;  // SHARED; 0: all
};
ServerHosts ServerHostsOf(const Ps& ps);

struct Host {
  std::string name;  // of the one process on it, or "host 1"
  std::optional<int> worker = {};
  std::vector<int> servers = {};
};
// Those with servers first.
std::vector<Host> HostsOf(const ServerHosts& hosts, int workers, int servers);

struct LinkLoad {
  double bytes = 0;  // one direction, a step
  std::string text;  // "n S / s"
};
// The busiest link's. `shares`: [server], of S.
LinkLoad BusiestLinkOf(const ServerHosts& hosts, int workers, const std::vector<double>& shares,
                       double gradient_bytes);

// What members counted, as the link of their host carries it, a step. Of a server's bytes the n-th
// part is the one of the worker beside it: every worker says the same amount to it.
struct LinkCount {
  std::string name;
  double in = 0;
  double out = 0;
};
std::vector<LinkCount> CountLinks(const ServerHosts& hosts, const RoleCount& workers,
                                  const RoleCount& servers);

}  // namespace lockstep
