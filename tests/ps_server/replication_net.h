// replication_net.h: a chain of copies of one shard, its workers and a coordinator that begins
// epochs, in one thread, with every delay and every loss from one seed. For tests of ShardCopy: it
// does what replication.h asks of a host, feeds a ledger, and notes every broken promise.
// Servers die at crash points, at any moment, while a state is on its way, or wake up as zombies in
// their old epoch; streams between them break; workers are replaced. It never takes the last copy.
// Units: time is a count of ticks. Threads: one.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ps_server/core/ledger.h"
#include "ps_server/core/replication.h"

namespace lockstep {

// Planted, to see that the checks find them.
enum class Bug {
  kNone,
  kAcknowledgeEarly,  // a message counts as replicated when it is handed to the transport
  kForgetMarks,       // a state does not say who has pushed what
  kNoFence,           // messages of older epochs are taken
  kCountRequests,     // a repeated chunk counts for whoever is missing
  kApplyHalf,         // a push is applied when half of it is here
};

struct NetOptions {
  PsRules rules;
  int32_t workers = 3;
  int32_t replicas = 1;
  bool aggregated = true;
  int64_t steps = 6;
  uint64_t seed = 1;
  int losses = 0;         // of servers, at most
  int worker_losses = 0;  // at most
  int breaks = 0;         // of streams between servers, at most
  bool replayed = true;   // contents are compared with straight-line code: plain rules only
  Bug bug = Bug::kNone;
};

class ReplicationNet {
 public:
  explicit ReplicationNet(const NetOptions& options);
  ~ReplicationNet();  // processes and their streams hold each other
  ReplicationNet(const ReplicationNet&) = delete;
  ReplicationNet& operator=(const ReplicationNet&) = delete;
  void Run();

  // Everything that was not as promised; the ledger's findings are part of it.
  const std::vector<std::string>& broken() const { return broken_; }
  // Parameters at the end.
  const std::vector<float>& parameters() const { return *final_; }
  int64_t losses() const { return lost_; }
  int64_t zombies() const { return zombies_; }
  int64_t refused() const { return refused_; }
  int64_t epochs() const { return epoch_; }
  int64_t caught_up() const { return caught_up_; }
  int64_t breaks() const { return broke_; }
  int64_t rejected() const { return rejected_; }
  // [point]: how many servers it ended.
  const std::map<CrashPoint, int>& deaths() const { return deaths_; }

 private:
  struct Stream;
  struct Process {
    int32_t server = 0;
    std::optional<ShardCopy> copy;
    bool alive = true;
    bool zombie = false;
    bool doomed = false;  // reached the crash point that ends it
    bool left = false;    // its epoch is dead: it hears nothing until it enters the next one
    int64_t epoch = 0;    // entered
    std::shared_ptr<Stream> opening;  // to its successor
    std::shared_ptr<Stream> down;     // the same once it stands
    std::shared_ptr<Stream> up;
  };
  using Server = std::shared_ptr<Process>;
  struct Stream {
    Server from;
    Server to;
    int64_t epoch = 0;
    bool open = true;
    int64_t last_down = 0;  // arrival of its newest message: it keeps them in order
    int64_t last_up = 0;
  };
  struct Worker {
    int64_t incarnation = 1;
    int64_t life = 0;  // of its present streams; older replies are not for it
    int64_t epoch = 0;
    int64_t finished = -1;
    int64_t round = 0;
    std::vector<float> parameters;
    int64_t last_send = 0;
  };
  struct Event {
    int64_t at = 0;
    int64_t number = 0;
    std::function<void()> run;
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };

  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool OneIn(int64_t n) { return Below(n) == 0; }
  int64_t Delay() { return 1 + (OneIn(12) ? Below(200) : Below(12)); }
  void After(int64_t ticks, std::function<void()> run);
  int64_t InOrder(int64_t* last);
  void Broken(const std::string& what);

  void ScheduleEpoch();
  void BeginEpoch();
  void Enter(const Server& server, const ChainPlace& place);
  void OpenStreams();
  void Open(const Server& from, const Server& to);
  std::vector<Server> Members() const;
  bool Survives(const Server& without) const;
  void Lose(const Server& server);
  void MaybeLose();

  void Feed(const Server& server, const CopyEvent& event, int64_t worker_life = 0);
  void OnOutput(const Server& server, CopyOutput* output, bool of_this_epoch);
  void SendDown(const Server& server, CopyOutput* output);
  void Down(const std::shared_ptr<Stream>& stream, CopyEvent event);
  void Up(const Server& server, const ReplicatedEvent& event);
  void Answer(const Server& server, const ShardReply& reply);

  void Attach(int32_t worker, int64_t life);
  void Welcome(int32_t worker, int64_t life, int64_t last_step, bool initialized);
  void OnReply(int32_t worker, int64_t life, const ShardReply& reply);
  void SendStart(int32_t worker);
  void SendPush(int32_t worker, int64_t step);
  void SendPull(int32_t worker, int64_t step);
  void ToHead(int32_t worker, std::function<void(const Server&)> deliver);
  void DeliverChunk(const Server& head, const UpdateId& id, int64_t base,
                    const std::vector<float>& values, int64_t begin, int64_t end);
  std::vector<float> GradientsOf(int32_t worker, int64_t step,
                                 const std::vector<float>& parameters) const;
  void Finish();
  void ExpectContents();

  const NetOptions options_;
  ShardOptions shard_;
  std::mt19937_64 random_;
  Ledger ledger_;
  int64_t now_ = 0;
  int64_t events_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
  Server MakeProcess(int32_t server);

  std::vector<Server> all_;    // that ever were
  std::vector<Server> slots_;  // [server]: its present process; null: none yet
  std::vector<Server> chain_;  // of this epoch, head first
  std::vector<Worker> workers_;
  int64_t epoch_ = 0;
  bool epoch_scheduled_ = false;
  bool began_ = false;  // some copy had the start values
  std::vector<std::string> broken_;
  std::shared_ptr<const std::vector<float>> final_;
  int64_t lost_ = 0;
  int64_t worker_lost_ = 0;
  int64_t zombies_ = 0;
  int64_t refused_ = 0;
  int64_t caught_up_ = 0;
  int64_t broke_ = 0;
  int64_t rejected_ = 0;
  std::set<std::pair<int32_t, int64_t>> late_;  // worker, step: applied alone, late
  std::map<CrashPoint, int> deaths_;
};

}  // namespace lockstep
