#include "base/port.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(PortTest, AFreePortServesAtOnce) {
  Port port;
  const Port::Turn turn = port.Reserve(5, 10);
  EXPECT_EQ(turn.begin_ns, 5);
  EXPECT_EQ(turn.end_ns, 15);
  EXPECT_EQ(port.free_at_ns(), 15);
}

TEST(PortTest, WhoAsksFirstIsServedFirst) {
  Port port;
  port.Reserve(0, 10);
  const Port::Turn second = port.Reserve(1, 1);
  const Port::Turn third = port.Reserve(2, 5);
  EXPECT_EQ(second.begin_ns, 10);
  EXPECT_EQ(third.begin_ns, 11);
  EXPECT_EQ(third.end_ns, 16);
}

TEST(PortTest, IdleTimeIsNotBusyTime) {
  Port port;
  port.Reserve(0, 10);
  port.Reserve(100, 10);
  EXPECT_EQ(port.free_at_ns(), 110);
  EXPECT_EQ(port.busy_ns(), 20);
}

TEST(PortTest, ATurnOfNoLengthStillWaits) {
  Port port;
  port.Reserve(0, 10);
  const Port::Turn turn = port.Reserve(3, 0);
  EXPECT_EQ(turn.begin_ns, 10);
  EXPECT_EQ(turn.end_ns, 10);
}

}  // namespace
}  // namespace lockstep
