#include "allreduce/schedule/text.h"

#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allreduce/schedule/text_words.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr char kMoveExample[] = "recv from 2, add chunk 1, send to 1";
constexpr char kGoalExample[] = "goal all_reduce";

bool HasRoot(Collective goal) {
  return goal == Collective::kReduce || goal == Collective::kBroadcast;
}
// Before the root.
const char* RootWord(Collective goal) { return goal == Collective::kReduce ? "to" : "from"; }

// The parts of one move. How many chunks it moves is what its places say, and they must agree.
class MoveParser {
 public:
  MoveParser(Words* words, const Shape& shape) : words_(*words), shape_(shape) {}

  absl::StatusOr<Move> Parse() {
    RETURN_IF_ERROR(Part("wait", [&] { return Wait(); }));
    RETURN_IF_ERROR(Part("recv", [&] { return Recv(); }));
    const bool receives = move_.recv_from != kNone;
    const char* const read = receives ? "add" : "take";
    RETURN_IF_ERROR(Part(read, [&] { return PlaceOf(&move_.in); }));
    RETURN_IF_ERROR(Part("store", [&] { return PlaceAfter("in"); }));
    if (move_.out == kNone) {
      RETURN_IF_ERROR(Part("fold", [&] {
        move_.fold = true;
        return PlaceAfter("into");
      }));
    }
    RETURN_IF_ERROR(Part("send", [&] { return Send(); }));
    if (parts_ == 0 || more_ || !words_.AtEnd()) return words_.Error(Expected(), Example());
    move_.count = static_cast<int16_t>(count_ == 0 ? 1 : count_);
    return move_;
  }

 private:
  template <typename Parse>
  absl::Status Part(std::string_view word, const Parse& parse) {
    if (parts_ != 0 && !more_) return absl::OkStatus();  // the line is over, or wrong
    if (!words_.Take(word)) return absl::OkStatus();
    RETURN_IF_ERROR(parse());
    ++parts_;
    more_ = words_.Take(",");
    return absl::OkStatus();
  }

  absl::Status Wait() {
    constexpr char kExample[] = "wait for lane 0 move 4, take chunk 1, send to 2";
    RETURN_IF_ERROR(words_.Expect("for", kExample));
    RETURN_IF_ERROR(words_.Expect("lane", kExample));
    ASSIGN_OR_RETURN(const int32_t lane,
                     words_.Number("a lane", 0, std::numeric_limits<int8_t>::max(), kExample));
    move_.wait_lane = static_cast<int8_t>(lane);
    RETURN_IF_ERROR(words_.Expect("move", kExample));
    ASSIGN_OR_RETURN(move_.wait_move, words_.Number("a move of that lane", 0,
                                                    std::numeric_limits<int32_t>::max(), kExample));
    return absl::OkStatus();
  }

  absl::Status Recv() {
    if (words_.Peek() != "from") {
      constexpr char kExample[] = "recv from 2, or: recv 3 chunks from 2, send to 1";
      ASSIGN_OR_RETURN(count_, words_.Number("\"from\", or how many chunks the message has", 1,
                                             std::numeric_limits<int16_t>::max(), kExample));
      if (!words_.Take(count_ == 1 ? "chunk" : "chunks")) {
        return words_.Error(count_ == 1 ? "\"chunk\"" : "\"chunks\"", kExample);
      }
    }
    return Peer("from", &move_.recv_from);
  }

  absl::Status Send() { return Peer("to", &move_.send_to); }

  absl::Status Peer(std::string_view word, int32_t* peer) {
    RETURN_IF_ERROR(words_.Expect(word, kMoveExample));
    ASSIGN_OR_RETURN(*peer, words_.Number("a rank", 0, shape_.world_size - 1, kMoveExample));
    return absl::OkStatus();
  }

  absl::Status PlaceAfter(std::string_view word) {
    RETURN_IF_ERROR(words_.Expect(word, kMoveExample));
    return PlaceOf(&move_.out);
  }

  // "chunk 3", "chunks 3..5", "scratch 0", "scratch 0..2"
  absl::Status PlaceOf(int32_t* first) {
    constexpr char kExample[] = "chunk 3, or: chunks 3..5, or: scratch 0..2";
    const Words start = words_;
    const bool many = words_.Take("chunks");
    const bool scratch = !many && !words_.Take("chunk");
    if (scratch && !words_.Take("scratch")) {
      return words_.Error("a place: \"chunk\", \"chunks\" or \"scratch\"", kExample);
    }
    const int32_t end = scratch ? shape_.scratch : shape_.chunks;
    if (end == 0) {
      return start.Error("a chunk, since there is no \"scratch\" line above", "scratch 3");
    }
    ASSIGN_OR_RETURN(const int32_t from,
                     words_.Number(scratch ? "a scratch chunk" : "a chunk", 0, end - 1, kExample));
    int32_t last = from;
    if (many || (scratch && words_.Peek() == "..")) {
      RETURN_IF_ERROR(words_.Expect("..", kExample));
      ASSIGN_OR_RETURN(last, words_.Number("the last chunk", from, end - 1, kExample));
    }
    const int32_t count = last - from + 1;
    if (count > std::numeric_limits<int16_t>::max() || (count_ != 0 && count_ != count)) {
      return start.Error(count_ == 0 ? "at most 32767 chunks"
                                     : absl::StrCat(count_, count_ == 1 ? " chunk" : " chunks",
                                                    ", as in this move's part before"),
                         kExample);
    }
    count_ = count;
    *first = scratch ? shape_.chunks + from : from;
    return absl::OkStatus();
  }

  // What may stand where the parser stopped.
  std::string Expected() const {
    if (parts_ != 0 && !more_) return "a comma or the end of the line";
    if (move_.send_to != kNone) return "the end of the line (a move's last part is \"send to\")";
    const char* const read = move_.recv_from == kNone ? "take" : "add";
    std::vector<const char*> words;
    if (move_.wait_lane == kNone && parts_ == 0) words.push_back("wait for");
    if (move_.recv_from == kNone && move_.in == kNone && move_.out == kNone) {
      words.push_back("recv");
    }
    if (move_.in == kNone && move_.out == kNone) words.push_back(read);
    if (move_.out == kNone) {
      words.push_back("store in");
      words.push_back("fold into");
    }
    words.push_back("send to");
    return absl::StrCat(parts_ == 0 ? "a move, \"rank\" or \"lane\"; a move's part is one of "
                                    : "the move's next part, one of ",
                        absl::StrJoin(words, ", "));
  }
  const char* Example() const {
    return move_.recv_from == kNone ? "take chunk 2, send to 1" : kMoveExample;
  }

  Words& words_;
  const Shape& shape_;
  Move move_;
  int32_t count_ = 0;  // 0: nothing has said it
  int parts_ = 0;
  bool more_ = false;  // a comma came after the last part
};

class Parser {
 public:
  absl::StatusOr<ScheduleText> Parse(std::string_view text) {
    int32_t number = 0;
    while (!text.empty()) {
      const size_t end = text.find('\n');
      words_ = Words(text.substr(0, end), ++number);
      text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
      if (words_.AtEnd()) continue;
      RETURN_IF_ERROR(Line());
    }
    if (!in_ranks_) {
      words_ = Words({}, number + 1);
      RETURN_IF_ERROR(EndHeader());
    }
    return std::move(result_);
  }

 private:
  Schedule& schedule() { return result_.schedule; }

  absl::Status Line() {
    if (words_.Peek() == "rank") return RankLine();
    return in_ranks_ ? RankPart() : HeaderLine();
  }

  absl::Status HeaderLine() {
    if (words_.Peek() == "goal") return GoalLine();
    const std::string_view key = words_.Peek();
    for (Field& field : fields_) {
      if (key != field.name) continue;
      if (field.value.has_value()) {
        return words_.Error(
            absl::StrCat("each of the first lines once, but \"", field.name, "\" was set before"),
            field.example);
      }
      words_.Take(key);
      ASSIGN_OR_RETURN(field.value,
                       words_.Number(field.what, field.least, field.most, field.example));
      return words_.End(field.example);
    }
    return words_.Error("ranks, chunks, contributors, scratch, slots, goal or, after these, rank",
                        "ranks 3");
  }

  absl::Status GoalLine() {
    if (goal_set_) return words_.Error("one goal, but it was set before", kGoalExample);
    words_.Take("goal");
    const std::optional<Collective> goal = CollectiveNamed(words_.Peek());
    if (!goal.has_value()) {
      const auto name = [](std::string* out, Collective each) {
        absl::StrAppend(out, NameOf(each));
      };
      return words_.Error(absl::StrCat("one of ", absl::StrJoin(kCollectives, ", ", name)),
                          kGoalExample);
    }
    words_.Take(words_.Peek());
    result_.goal = *goal;
    goal_set_ = true;
    if (HasRoot(*goal)) {
      const std::string example = absl::StrCat("goal ", NameOf(*goal), " ", RootWord(*goal), " 1");
      RETURN_IF_ERROR(words_.Expect(RootWord(*goal), example));
      ASSIGN_OR_RETURN(result_.root, words_.Number("a rank", 0, kTextRanksMax - 1, example));
    }
    return words_.End(kGoalExample);
  }

  // From here on it is known how much there may be.
  absl::Status EndHeader() {
    const Field& ranks = fields_[0];
    const Field& chunks = fields_[1];
    for (const Field* needed : {&ranks, &chunks}) {
      if (needed->value.has_value()) continue;
      return words_.Error(absl::StrCat("a line \"", needed->name, "\" before this"),
                          needed->example);
    }
    Schedule& made = schedule();
    made.world_size = *ranks.value;
    made.chunks = *chunks.value;
    made.contributors = fields_[2].value.value_or(made.world_size);
    made.scratch = fields_[3].value.value_or(0);
    made.slots = fields_[4].value.value_or(Shape().slots);
    for (const auto& [name, rank] : {std::pair("contributors", made.contributors - 1),
                                     std::pair("goal's rank", result_.root)}) {
      if (rank < made.world_size) continue;
      return words_.Error(
          absl::StrCat("no more than ranks ", made.world_size, " allow (", name, ")"), "ranks 3");
    }
    const int64_t cells = int64_t{made.world_size} * (int64_t{made.chunks} + made.scratch);
    if (cells > kTextCellsMax) {
      return absl::ResourceExhaustedError(
          absl::StrCat(words_.number(), ": ranks x (chunks + scratch) is ", cells,
                       ", more than the ", kTextCellsMax, " that a text may ask for"));
    }
    made.ranks.resize(static_cast<size_t>(made.world_size));
    result_.lines.resize(made.ranks.size());
    seen_.resize(made.ranks.size());
    in_ranks_ = true;
    return absl::OkStatus();
  }

  absl::Status RankLine() {
    constexpr char kExample[] = "rank 0";
    if (!in_ranks_) {
      RETURN_IF_ERROR(EndHeader());
    }
    const Words start = words_;
    words_.Take("rank");
    ASSIGN_OR_RETURN(rank_, words_.Number("a rank", 0, schedule().world_size - 1, kExample));
    const auto rank = static_cast<size_t>(rank_);
    if (seen_[rank] != 0) {
      return start.Error(
          absl::StrCat("each rank once, but rank ", rank_, " began on line ", seen_[rank]),
          kExample);
    }
    seen_[rank] = words_.number();
    return words_.End(kExample);
  }

  absl::Status RankPart() {
    std::vector<Lane>& lanes = schedule().ranks[static_cast<size_t>(rank_)];
    auto& lines = result_.lines[static_cast<size_t>(rank_)];
    if (words_.Take("lane")) {
      const std::string example = absl::StrCat("lane ", lanes.size(), " channel 0");
      const auto next = static_cast<int32_t>(lanes.size());
      RETURN_IF_ERROR(words_.Number("this rank's next lane", next, next, example).status());
      RETURN_IF_ERROR(words_.Expect("channel", example));
      ASSIGN_OR_RETURN(const int32_t channel,
                       words_.Number("a channel", 0, kChannelsMax - 1, example));
      lanes.push_back({channel, {}});
      lines.emplace_back();
      return words_.End(example);
    }
    ASSIGN_OR_RETURN(const Move move, MoveParser(&words_, schedule()).Parse());
    if (lanes.empty()) {
      lanes.emplace_back();
      lines.emplace_back();
    }
    lanes.back().moves.push_back(move);
    lines.back().push_back(words_.number());
    return absl::OkStatus();
  }

  struct Field {
    const char* name;
    const char* what;
    int32_t least;
    int32_t most;
    const char* example;
    std::optional<int32_t> value;
  };
  Field fields_[5] = {
      {"ranks", "how many ranks", 1, kTextRanksMax, "ranks 3", {}},
      {"chunks", "how many chunks the data are cut into", 1, kTextCellsMax, "chunks 3", {}},
      {"contributors", "how many ranks have input", 1, kTextRanksMax, "contributors 3", {}},
      {"scratch", "how many scratch chunks a rank has", 0, kTextCellsMax, "scratch 3", {}},
      {"slots", "how many messages a connection holds", 1, kTextSlotsMax, "slots 2", {}},
  };
  Words words_;
  ScheduleText result_;
  std::vector<int32_t> seen_;  // [rank]: the line of its "rank", 0: none yet
  bool in_ranks_ = false;
  bool goal_set_ = false;
  int32_t rank_ = 0;
};

std::string Place(const Shape& shape, int32_t first, int16_t count) {
  const bool scratch = first >= shape.chunks;
  const int32_t from = scratch ? first - shape.chunks : first;
  if (count == 1) return absl::StrCat(scratch ? "scratch " : "chunk ", from);
  return absl::StrCat(scratch ? "scratch " : "chunks ", from, "..", from + count - 1);
}

}  // namespace

std::string MoveText(const Shape& shape, const Move& move) {
  std::vector<std::string> parts;
  if (move.wait_lane != kNone) {
    parts.push_back(absl::StrCat("wait for lane ", move.wait_lane, " move ", move.wait_move));
  }
  if (move.recv_from != kNone) {
    const bool untold = move.in == kNone && move.out == kNone && move.count != 1;
    parts.push_back(absl::StrCat("recv ", untold ? absl::StrCat(move.count, " chunks ") : "",
                                 "from ", move.recv_from));
  }
  if (move.in != kNone) {
    parts.push_back(absl::StrCat(move.recv_from == kNone ? "take " : "add ",
                                 Place(shape, move.in, move.count)));
  }
  if (move.out != kNone) {
    parts.push_back(
        absl::StrCat(move.fold ? "fold into " : "store in ", Place(shape, move.out, move.count)));
  }
  if (move.send_to != kNone) parts.push_back(absl::StrCat("send to ", move.send_to));
  return absl::StrJoin(parts, ", ");
}

absl::StatusOr<ScheduleText> ParseSchedule(std::string_view text) { return Parser().Parse(text); }

std::string WriteSchedule(const Schedule& schedule, Collective goal, int32_t root) {
  std::string text =
      absl::StrCat("ranks ", schedule.world_size, "\nchunks ", schedule.chunks, "\n");
  if (schedule.contributors != schedule.world_size) {
    absl::StrAppend(&text, "contributors ", schedule.contributors, "\n");
  }
  if (schedule.scratch != 0) absl::StrAppend(&text, "scratch ", schedule.scratch, "\n");
  absl::StrAppend(&text, "slots ", schedule.slots, "\ngoal ", NameOf(goal));
  if (HasRoot(goal)) absl::StrAppend(&text, " ", RootWord(goal), " ", root);
  text += "\n";
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const std::vector<Lane>& lanes = schedule.ranks[rank];
    absl::StrAppend(&text, "\nrank ", rank, "\n");
    const bool plain = lanes.size() == 1 && lanes[0].channel == 0 && !lanes[0].moves.empty();
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      if (!plain) absl::StrAppend(&text, "  lane ", lane, " channel ", lanes[lane].channel, "\n");
      for (const Move& move : lanes[lane].moves) {
        absl::StrAppend(&text, plain ? "  " : "    ", MoveText(schedule, move), "\n");
      }
    }
  }
  return text;
}

}  // namespace lockstep
