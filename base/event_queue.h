// event_queue.h: a virtual clock and the events still to come, for simulators. Of events at one
// time the one that was added first comes first, so a simulation is the same in every run. It holds
// as many events as its user has under way; the user bounds those. Cost: O(log n) an event. Units:
// nanoseconds from the start. Pure: one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"

namespace lockstep {

template <typename Event>
class EventQueue {
 public:
  double now_ns() const { return now_ns_; }
  bool empty() const { return heap_.empty(); }
  size_t size() const { return heap_.size(); }

  // REQUIRES: time_ns >= now_ns().
  void Add(double time_ns, Event event) {
    CHECK(time_ns >= now_ns_) << time_ns << " ns is over, the clock shows " << now_ns_;
    heap_.push_back({time_ns, added_++, std::move(event)});
    std::push_heap(heap_.begin(), heap_.end(), Later{});
  }

  // Sets the clock to the next event's time and returns it. REQUIRES: not empty().
  Event Next() {
    CHECK(!heap_.empty());
    std::pop_heap(heap_.begin(), heap_.end(), Later{});
    Entry entry = std::move(heap_.back());
    heap_.pop_back();
    now_ns_ = entry.time_ns;
    return std::move(entry.event);
  }

 private:
  struct Entry {
    double time_ns = 0;
    uint64_t order = 0;
    Event event;
  };
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const {
      return a.time_ns != b.time_ns ? a.time_ns > b.time_ns : a.order > b.order;
    }
  };

  std::vector<Entry> heap_;
  uint64_t added_ = 0;
  double now_ns_ = 0;
};

}  // namespace lockstep
