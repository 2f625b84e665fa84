#include "base/event_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::ElementsAre;

template <typename Event>
std::vector<Event> Drain(EventQueue<Event>* events) {
  std::vector<Event> order;
  while (!events->empty()) order.push_back(events->Next());
  return order;
}

TEST(EventQueueTest, EventsComeByTime) {
  EventQueue<std::string> events;
  events.Add(30, "third");
  events.Add(10, "first");
  events.Add(20, "second");
  EXPECT_EQ(events.size(), 3U);
  EXPECT_THAT(Drain(&events), ElementsAre("first", "second", "third"));
}

TEST(EventQueueTest, OfOneTimeTheFirstAddedComesFirst) {
  EventQueue<int> events;
  for (int i = 0; i < 100; ++i) events.Add(i % 2 == 0 ? 5.0 : 7.0, i);
  const std::vector<int> order = Drain(&events);
  for (size_t i = 1; i < order.size(); ++i) {
    const bool same_time = order[i] % 2 == order[i - 1] % 2;
    EXPECT_TRUE(!same_time || order[i - 1] < order[i]) << i;
  }
  EXPECT_EQ(order.front(), 0);
  EXPECT_EQ(order.back(), 99);
}

TEST(EventQueueTest, TheClockShowsTheLastEventsTime) {
  EventQueue<int> events;
  EXPECT_EQ(events.now_ns(), 0);
  events.Add(2.5, 1);
  EXPECT_EQ(events.now_ns(), 0);
  events.Next();
  EXPECT_EQ(events.now_ns(), 2.5);
  events.Add(2.5, 2);  // now is not the past
  events.Next();
  EXPECT_EQ(events.now_ns(), 2.5);
}

TEST(EventQueueTest, AnEventMayOnlyMove) {
  EventQueue<std::unique_ptr<int>> events;
  events.Add(2, std::make_unique<int>(2));
  events.Add(1, std::make_unique<int>(1));
  EXPECT_EQ(*events.Next(), 1);
  EXPECT_EQ(*events.Next(), 2);
}

TEST(EventQueueDeathTest, ThePastIsOver) {
  EventQueue<int> events;
  events.Add(10, 1);
  events.Next();
  EXPECT_DEATH(events.Add(9, 2), "9 ns is over, the clock shows 10");
}

TEST(EventQueueDeathTest, NothingComesOfNothing) {
  EventQueue<int> events;
  EXPECT_DEATH(events.Next(), "CHECK failed");
}

}  // namespace
}  // namespace lockstep
