// crash_point.h: the places where a planned fault may end a server, by name, the same in the
// simulator and on real processes. Code that reaches one calls its hook; the hook of a process that
// is to die there does not return. Plain data.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace lockstep {

enum class CrashPoint : uint8_t {
  kBeforeReceive,       // a push's first chunk has arrived, nothing of it is staged
  kHalfReceived,        // half of the chunks of a push are staged
  kReceivedNotApplied,  // a push is whole, its update is not made
  kAppliedNotReplicated,
  kReplicatedNotAcknowledged,  // the tail has it, no worker knows
  kAcknowledged,               // the first reply of an update is handed to the transport
  kDuringReply,                // half of a reply's chunks are sent
  kDuringSnapshot,             // half of a snapshot's bytes are written
  kSnapshotNotNamed,           // written and synced, not renamed yet
  kDuringStateTransfer,        // half of a state is sent, or taken
  kRestoring,                  // a later epoch has begun here, nothing is restored yet
};
struct CrashPointName {
  CrashPoint point;
  std::string_view name;  // in a spec's `point`
};
inline constexpr std::array<CrashPointName, 11> kCrashPoints = {{
    {CrashPoint::kBeforeReceive, "before_receive"},
    {CrashPoint::kHalfReceived, "half_received"},
    {CrashPoint::kReceivedNotApplied, "received_not_applied"},
    {CrashPoint::kAppliedNotReplicated, "applied_not_replicated"},
    {CrashPoint::kReplicatedNotAcknowledged, "replicated_not_acknowledged"},
    {CrashPoint::kAcknowledged, "acknowledged"},
    {CrashPoint::kDuringReply, "during_reply"},
    {CrashPoint::kDuringSnapshot, "during_snapshot"},
    {CrashPoint::kSnapshotNotNamed, "snapshot_not_named"},
    {CrashPoint::kDuringStateTransfer, "during_state_transfer"},
    {CrashPoint::kRestoring, "restoring"},
}};

// Called with the step that the shard is at. Empty: nothing is planned.
using CrashHook = std::function<void(CrashPoint point, int64_t step)>;

}  // namespace lockstep
