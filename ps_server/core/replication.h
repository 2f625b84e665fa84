// replication.h: one server's copy of one shard, in its place in the chain, as a state machine
// without I/O: the shard itself (shard.h), what its successor lacks, and what may be acknowledged.
// The head takes the workers' frames and numbers what follows from them; each message goes down the
// chain in order; every copy does the same with the same arithmetic; the tail's word comes back up;
// only then is what depends on it told to a worker. Aggregated: a message is an update's sum and
// the identities it is made of. Not aggregated: each whole push travels by itself, and copies fold
// on their own. With replicas = 0 there is no successor and nothing is held back. Invariants
//  1. A reply leaves the head only when every copy in the chain has all that the head had when it
//     made it. So what a worker was told survives as long as one of them does.
//  2. A copy's history is a prefix of its predecessor's, so the copy nearest to the old head has
//     everything that was acknowledged; a new epoch's chain keeps the order of the old one.
//  3. Messages of another epoch are refused: a head that was replaced can't get a word from its old
//     successor, so it acknowledges nothing.
//  4. Where a stream to a successor stands, the link begins: with the whole state if the successor
//     has none, or another version or other marks; with what is not in a state (incarnations,
//     staged pushes); then kBegin; from there on message by message. A successor that joins is
//     waited for only from kMember on: it has then all that anybody was told, and its has_state()
//     is true from there. The others are waited for from the start of the epoch.
//  5. What is staged is durable nowhere and nobody was told of it. A new epoch clears it on every
//     copy, and its worker pushes it again; what was applied is known by its identity.
//  6. Nothing is kept for a stream that does not stand: the state goes in its place. Replies held
//     are at most one per worker, and so updates that are not confirmed.
//
// What the host does:
//  - It gives frames of workers only to the head, only of its epoch, one event at a time. `replies`
//    and `refusals` go to their workers at once; a reply to a stream that is gone is dropped.
//  - A new epoch: it closes the streams of the old one, then EpochEvent, then the new streams. It
//    opens a stream to place().successor; HELLO carries the epoch and the other side refuses
//    another one; WELCOME carries has_state(), version() and marks() of that copy at that moment:
//    then SuccessorEvent. Should such a stream end within its epoch, it opens it anew, with a new
//    WELCOME and SuccessorEvent: the link begins again with what is missing.
//  - state_to_successor goes first, then to_successor in order, on the stream whose SuccessorEvent
//    was the last one given, as whole messages; the other side makes one StateEvent or
//    ReplicateEvent of each. They are dropped where that stream has ended. to_predecessor goes back
//    on the newest stream that came in this epoch; without one it is dropped.
//  - `fault` ends the stream that the event came on, with this status; the copy has changed nothing
//    but counters, and goes on. A fault of EpochEvent is a broken promise of the coordinator: this
//    copy stays in the old epoch and answers nobody.
//  - caught_up is passed to the coordinator (CaughtUp). has_state() and version() are what a
//    server's Broken reports as held.
//  - Crash points that it calls itself: kAcknowledged, kDuringReply, those of snapshots,
//    kDuringStateTransfer. All others are called here; nothing of Handle's output may be used when
//    the hook has ended the process (a simulator: has marked it as dead).
// Units: elements; times in ns. Pure: no I/O, no threads, no clock.
// Paper: van Renesse and Schneider, Chain Replication, OSDI 2004; pulls are served by the head,
// with versions the tail has confirmed, in place of the tail itself.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ps_server/core/crash_point.h"
#include "ps_server/core/shard.h"
#include "ps_server/core/shard_state.h"

namespace lockstep {

// Where this server stands in a shard's chain.
struct ChainPlace {
  int64_t epoch = 0;
  bool head = true;
  std::optional<int32_t> predecessor = {};  // server; unset for the head
  std::optional<int32_t> successor = {};    // unset: the tail
  bool joins = false;            // it has not got all that workers were told: no member yet
  bool successor_joins = false;  // the same of the successor: it is not waited for until it has
  bool aggregated = true;
};

// What goes to the successor. `payload` is one float per element of the shard.
struct Replicate {
  enum class Kind : uint8_t {
    kUpdate,  // aggregated: the sum that was applied, and whose pushes it is made of
    kPush,    // not aggregated: one worker's whole push
    kDrop,    // K_OF_N: a late push was dropped; no payload. Nor have these:
    kAttach,  // a worker's stream began: its incarnation
    kRead,    // ASYNC, BOUNDED: a worker is given the parameters as they are; K_OF_N: it redoes
    kBegin,   // of a link: the successor has now everything up to `sequence`
    kMember,  // ... and all that anybody was told; it is waited for from now on
  };
  Kind kind = Kind::kUpdate;
  int64_t version = 0;   // kUpdate: the one that it makes; else: the one it follows
  int64_t sequence = 0;  // of this chain and epoch, from 1. kBegin, kMember: the newest one before;
                         // 0: kPush, kAttach, kRead: not in a state, sent before kBegin
  std::vector<UpdateId> pushes = {};  // identities it is made of, in rank order
  int64_t base = 0;                   // kPush: PushEvent::base; kUpdate: the round it leads to
  std::shared_ptr<const std::vector<float>> payload = nullptr;
};
// One push's message without a payload; its sequence is given where it is sent.
inline Replicate About(Replicate::Kind kind, int64_t version, const UpdateId& id) {
  return {.kind = kind, .version = version, .pushes = {id}};
}
// Of Replicate without its payload, for PsFrame.replicated. Errors: DataLoss (not what
// EncodeReplicate makes).
std::string EncodeReplicate(const Replicate& message);
absl::StatusOr<Replicate> DecodeReplicate(const std::string& bytes);

// Events beside those of Shard, which the head takes as they are.
struct EpochEvent {  // a new epoch begins: the shard's place in it, and who the workers are
  ChainPlace place;
  std::vector<bool> present;  // [worker index]: it is in the new group
};
struct SuccessorEvent {  // the stream to the successor stands; what it has
  bool has_state = false;
  int64_t version = 0;
  uint64_t marks = 0;
};
struct ReplicateEvent {  // from the predecessor
  int64_t epoch = 0;
  Replicate message;
};
struct StateEvent {  // from the predecessor: the whole state
  int64_t epoch = 0;
  ShardState state;
};
struct ReplicatedEvent {  // from the successor: it and all behind it have everything up to here
  int64_t epoch = 0;
  int64_t sequence = 0;  // 0: what the epoch began with
  int64_t version = 0;   // -1: it has the state, but has not heard kMember yet
};
using CopyEvent = std::variant<ShardEvent, EpochEvent, SuccessorEvent, ReplicateEvent, StateEvent,
                               ReplicatedEvent>;

struct CopyOutput {
  std::vector<ShardReply> replies;  // may be sent
  std::vector<ShardRefusal> refusals;
  std::optional<ShardUpdate> update;                     // applied here
  std::optional<UpdateId> dropped;                       // K_OF_N: noted here as dropped
  std::shared_ptr<const ShardState> state_to_successor;  // goes before `to_successor`
  std::vector<Replicate> to_successor;                   // in order
  std::optional<ReplicatedEvent> to_predecessor;
  bool caught_up = false;  // the successor that joined is in the chain now
  absl::Status fault;      // not OK: the stream it came on ends with this
};

class ShardCopy {
 public:
  // Errors: as Shard::Create; InvalidArgument (a head with a predecessor).
  static absl::StatusOr<ShardCopy> Create(const ShardOptions& options, const ChainPlace& place);
  // A copy that begins with `state`, from a snapshot.
  static absl::StatusOr<ShardCopy> Restore(const ShardOptions& options, const ChainPlace& place,
                                           const ShardState& state);
  // `crash` is called at the points of the protocol (crash_point.h); empty: nothing is planned.
  void set_crash_hook(CrashHook crash) { crash_ = std::move(crash); }

  CopyOutput Handle(const CopyEvent& event, int64_t now_ns);

  const ChainPlace& place() const { return place_; }
  int64_t version() const { return shard_.version(); }
  // It has all that anybody was told, and may become the head.
  bool has_state() const { return member_ && shard_.initialized(); }
  // Of who has pushed and read what: with the version, how far this copy's history goes.
  uint64_t marks() const;
  int64_t confirmed() const { return confirmed_version_; }  // that every copy in the chain has
  const Shard& shard() const { return shard_; }
  ShardState Save() const { return shard_.Save(); }

 private:
  // How far a successor is. One that joins goes through all, the others are kIn from the start.
  enum class Stage : uint8_t { kOut, kSentState, kHasState, kSentMember, kIn };
  struct Link {  // to the successor
    Stage stage = Stage::kOut;
    bool begun = false;  // messages go
    int64_t sent = -1;   // newest message
    int64_t acknowledged = -1;
    int64_t version = 0;  // acknowledged
  };
  struct Arrival {  // of a push, for its crash points
    int64_t step = 0;
    int64_t elements = 0;
  };
  struct Held {
    int64_t sequence = 0;  // that must be confirmed
    ShardReply reply;
  };

  ShardCopy(const ShardOptions& options, Shard shard, const ChainPlace& place);
  void Enter(const ChainPlace& place);

  // Each returns the fault.
  absl::Status On(const ShardEvent& event, int64_t now_ns, CopyOutput* output);
  absl::Status On(const EpochEvent& event, int64_t now_ns, CopyOutput* output);
  absl::Status On(const SuccessorEvent& event, int64_t now_ns, CopyOutput* output);
  absl::Status On(const ReplicateEvent& event, int64_t now_ns, CopyOutput* output);
  absl::Status On(const StateEvent& event, int64_t now_ns, CopyOutput* output);
  absl::Status On(const ReplicatedEvent& event, int64_t now_ns, CopyOutput* output);

  // The head: what follows from a worker's event.
  void BeforePush(const PushEvent& event);
  void AfterPush(const PushEvent& event);
  void Lead(const ShardEvent& event, bool was_initialized, ShardOutput* shard, CopyOutput* output);
  void Emit(Replicate message, CopyOutput* output);
  void Send(Replicate message, CopyOutput* output);
  void Hold(std::vector<ShardReply>* replies);
  // The others: the predecessor's messages.
  absl::Status CheckPredecessor(int64_t epoch) const;
  absl::Status CheckOrder(const Replicate& message) const;
  absl::Status Follow(const Replicate& message, int64_t now_ns, CopyOutput* output);
  absl::Status FollowPush(const Replicate& message, int64_t now_ns, CopyOutput* output);
  absl::Status FollowEvent(const ShardEvent& event, int64_t now_ns, CopyOutput* output);
  // Both.
  void NoteUpdate(std::optional<ShardUpdate> update, CopyOutput* output);
  void BeginLink(CopyOutput* output);
  void AdmitSuccessor(CopyOutput* output);
  void Confirm(bool asked, CopyOutput* output);
  bool Waits() const { return place_.successor.has_value() && link_.stage >= Stage::kSentMember; }
  void Crash(CrashPoint point, int64_t step) const;
  std::string Name() const;  // for messages: which copy this is

  ShardOptions options_;
  Shard shard_;
  ChainPlace place_;
  std::vector<bool> present_;
  std::vector<int64_t> incarnations_;  // [worker], attached; -1: none
  CrashHook crash_;
  bool member_ = false;
  int64_t sequence_ = 0;  // newest message that is done here; -1: before kBegin
  int64_t confirmed_ = -1;
  int64_t confirmed_version_ = 0;
  Link link_;
  std::optional<SuccessorEvent> successor_;  // its stream stands, and the link has not begun
  std::vector<Replicate> staged_;            // [worker]: not aggregated, whole and not applied
  std::vector<Held> held_;
  std::vector<Arrival> arrivals_;  // [worker]
};

}  // namespace lockstep
