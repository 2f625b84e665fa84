// Every field of experiment.proto, also one that is added tomorrow, is either built or refused.
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>

#include "base/limits.h"
#include "tests/experiments/spec/spec_support.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// What the trunk accepts: path without indices -> every accepted choice, or a sample of a number.
// This list is written a second time on purpose: the rules can't widen without it.
const std::map<std::string, std::set<std::string>> kAccepted = {
    {"name", {"x"}},
    {"model.mlp.layers", {}},
    {"train.global_batch", {"64"}},
    {"train.steps", {"7"}},
    {"train.optimizer.sgd.learning_rate", {"0.5"}},
    {"train.optimizer.sgd.momentum", {"0.5"}},
    {"train.optimizer.adam.learning_rate", {"0.5"}},
    {"train.optimizer.adam.beta1", {"0.5"}},
    {"train.optimizer.adam.beta2", {"0.5"}},
    {"train.optimizer.adam.epsilon", {"0.5"}},
    {"train.optimizer.adam.weight_decay", {"0.5"}},
    {"train.optimizer.adamw.learning_rate", {"0.5"}},
    {"train.optimizer.adamw.beta1", {"0.5"}},
    {"train.optimizer.adamw.beta2", {"0.5"}},
    {"train.optimizer.adamw.epsilon", {"0.5"}},
    {"train.optimizer.adamw.weight_decay", {"0.5"}},
    {"train.seeds", {"7"}},
    {"train.target_loss", {"0.5"}},
    {"reduce_op", {"MEAN", "SUM"}},
    {"reduction_order", {"ENGINE", "EXACT"}},
    {"wire_dtype", {"F32", "F16", "BF16", "F64"}},
    {"bucket_cap_mb", {"0.5"}},
    {"find_unused_parameters", {"false"}},
    {"gradient_as_bucket_view", {"true"}},
    {"network.time_base", {"AUTO", "WALL"}},
    {"workers", {"2"}},
    {"variant.name", {"x"}},
    {"variant.ps.mode", {"SYNC", "ASYNC", "BOUNDED", "K_OF_N"}},
    {"variant.ps.servers", {"3"}},
    {"variant.ps.policy", {"NONE", "SNAPSHOT", "CHAIN"}},
    {"variant.ps.optimizer_on", {"SERVER", "WORKER"}},
    {"variant.ps.staleness", {"7"}},
    {"variant.ps.k", {"2"}},
    {"variant.ps.rate", {"OVER_WORKERS", "FULL"}},
    {"variant.ps.late", {"DROP", "APPLY"}},
    {"variant.ps.scale_by_staleness", {"false", "true"}},
    {"variant.ps.placement", {"SPLIT", "IN_TURN", "BY_SIZE"}},
    {"variant.ps.hosts", {"OWN", "SHARED", "COLOCATED"}},
    {"variant.ps.servers_per_host", {"2"}},
    {"variant.ps.replicas", {"2"}},
    {"variant.ps.aggregated", {"false", "true"}},
    {"variant.ps.snapshot_every", {"7"}},
    {"variant.ps.on_worker_loss", {"STOP", "REPLACE", "SHRINK"}},
    {"variant.all_reduce.algorithm",
     {"AUTO", "NAIVE", "STAR", "RING", "TREE", "DOUBLE_TREE", "HALVING_DOUBLING",
      "RECURSIVE_DOUBLING", "DIRECT", "HIERARCHICAL", "PS_EXCHANGE"}},
    {"variant.all_reduce.engine", {"HOST", "CUDA", "MPI", "GLOO", "NCCL"}},
    {"variant.all_reduce.nccl.algo", {"ANY_ALGO", "RING", "TREE", "NVLS", "NVLS_TREE"}},
    {"variant.all_reduce.nccl.proto", {"ANY_PROTO", "LL", "LL128", "SIMPLE"}},
    {"variant.all_reduce.nccl.share_gpu", {"false", "true"}},
    {"variant.all_reduce.cuda.share_gpu", {"false", "true"}},
    {"variant.all_reduce.link", {"TCP", "SHM"}},
    {"variant.all_reduce.group_size", {"2"}},
    {"variant.all_reduce.placement", {"SPARE", "COLOCATED", "SPLIT"}},
    {"variant.all_reduce.channels", {"2"}},
    {"variant.all_reduce.on_loss", {"STOP", "SHRINK", "REPLACE"}},
    {"variant.all_reduce.servers", {"2"}},
    {"fault.at.step", {"7"}},
    {"fault.target", {"worker:3"}},
    {"fault.point", {"applied_not_replicated"}},
    {"fault.kind",
     {"KILL", "FREEZE", "RESTART", "CRASH_POINT", "DISK_FULL", "DROP", "DUPLICATE", "CORRUPT",
      "DELAY", "NAN_GRADIENT", "LEAVE", "JOIN"}},
    {"fault.for", {"500ms", "2s"}},
    {"fault.message.to", {"2"}},
    {"fault.message.nth", {"7"}},
    {"fault.after_bucket", {"0"}},
    {"blocks", {"7"}},
    {"probe.every", {"7"}},
    {"probe.keep_snapshots", {"false", "true"}},
    {"limits.join_timeout_ms", {"700"}},
    {"limits.connect_timeout_ms", {"700"}},
    {"limits.sync_timeout_ms", {"700"}},
    {"limits.heartbeat_ms", {"700"}},
    {"limits.lease_ms", {"700"}},
    {"limits.stop_grace_ms", {"700"}},
    {"limits.waiting_line_ms", {"700"}},
    {"limits.message_bytes_max", {"7000"}},
    {"limits.chunk_bytes", {"700"}},
    {"limits.window_chunks", {"7"}},
    {"limits.staged_bytes_max", {"70000"}},
    {"limits.snapshot_bytes_max", {"700"}},
    {"limits.settle_ms", {"700"}},
    {"limits.answer_grace_ms", {"700"}},
    {"limits.rebuild_timeout_ms", {"20000"}},
    {"limits.device_timeout_ms", {"700"}},
    {"overlap", {"false", "true"}},
    {"broadcast_start", {"false", "true"}},
    {"trace.steps", {"0"}},
    {"device", {"CPU", "GPU"}},
    {"math", {"STRICT", "TF32"}},
    {"share_gpu", {"false", "true"}},
    {"mixed_devices", {"false", "true"}},
};
// Blocks that are accepted when empty or as the valid spec has them.
const std::set<std::string> kAcceptedBlocks = {"data.digits",
                                               "train.optimizer.sgd",
                                               "train.optimizer.adam",
                                               "train.optimizer.adamw",
                                               "variant.none",
                                               "variant.ps",
                                               "variant.all_reduce",
                                               "variant.all_reduce.nccl",
                                               "variant.all_reduce.cuda",
                                               "network",
                                               "probe",
                                               "limits",
                                               "trace"};
// Blocks that say nothing when empty, and are refused for that.
const std::set<std::string> kOpenBlocks = {"model", "model.mlp",       "data",
                                           "train", "train.optimizer", "variant",
                                           "fault", "fault.at",        "fault.message"};

// A value that differs from every accepted one, where the type has one.
std::vector<std::string> ValuesToTry(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_ENUM: {
      std::vector<std::string> names;
      names.reserve(static_cast<size_t>(field.enum_type()->value_count()));
      for (int i = 0; i < field.enum_type()->value_count(); ++i) {
        names.push_back(field.enum_type()->value(i)->name());
      }
      return names;
    }
    case FieldDescriptor::CPPTYPE_BOOL:
      return {"false", "true"};
    case FieldDescriptor::CPPTYPE_STRING:
      return {"x"};
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return {"{}"};
    default:
      return {"7"};
  }
}

class EveryField {
 public:
  // Below a block that is refused as a whole nothing can be reached.
  // NOLINTNEXTLINE(misc-no-recursion): as deep as the schema, which is finite
  void Walk(const Descriptor& message, const std::string& pattern, const std::string& path) {
    for (int i = 0; i < message.field_count(); ++i) {
      const FieldDescriptor& field = *message.field(i);
      const std::string field_pattern = JoinPath(pattern, field.name());
      const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
      if (is_message) {
        Block(field, field_pattern, JoinPath(path, field.name()));
      } else {
        Leaf(field, field_pattern, JoinPath(path, field.name()));
      }
    }
  }
  int leaves() const { return leaves_; }
  const std::set<std::string>& seen() const { return seen_; }

 private:
  // The valid spec with `path` set; a variant that does not have the block is replaced by one that
  // has.
  static LoadedSpec With(const std::string& path, const std::string& value) {
    std::vector<std::string> set;
    if (path.rfind("train.optimizer.", 0) == 0) set.push_back("train.optimizer={}");
    if (path.rfind("variant[0].", 0) == 0) set.push_back("variant={ name: \"v\" }");
    if (path.rfind("model.", 0) == 0 && path.rfind("model.mlp", 0) != 0) set.push_back("model={}");
    if (path.rfind("data.", 0) == 0) set.push_back("data={}");
    if (path.rfind("fault[0].", 0) == 0) {
      const bool server =
          path == "fault[0].point" || value == "CRASH_POINT" || value == "DISK_FULL";
      set.push_back(absl::StrCat("fault={ at { step: 5 } target: \"",
                                 server ? "server:0" : "worker:1", "\" ", FaultAround(path, value),
                                 " }"));
      const bool changes = value == "LEAVE" || value == "JOIN";
      set.push_back(server    ? "variant={ name: \"v\" ps { policy: SNAPSHOT } }"
                    : changes ? "variant={ name: \"v\" ps { on_worker_loss: SHRINK } }"
                              : "variant={ name: \"v\" all_reduce { on_loss: REPLACE } }");
    }
    if (path == "wire_dtype") set.push_back("variant={ name: \"v\" all_reduce {} }");
    if (path.rfind("variant[0].ps.", 0) == 0) {
      set.push_back(absl::StrCat("variant[0].ps={ ", ServersAround(path, value), " }"));
    }
    if (path == "variant[0].all_reduce.servers" || path == "variant[0].all_reduce.placement") {
      set.push_back("variant[0].all_reduce={ algorithm: PS_EXCHANGE }");
    }
    if (path.rfind("variant[0].all_reduce.nccl", 0) == 0) {
      set.push_back("variant[0].all_reduce={ engine: NCCL }");
    }
    if (path.rfind("variant[0].all_reduce.cuda", 0) == 0) {
      set.push_back("variant[0].all_reduce={ engine: CUDA }");
    }
    if (path == "variant[0].all_reduce.group_size") {
      set.push_back("variant[0].all_reduce={ algorithm: HIERARCHICAL }");
    }
    if (path == "math" || path == "share_gpu") set.push_back("device=GPU");
    if (path == "limits.message_bytes_max") set.push_back("limits.chunk_bytes=700");
    if (path == "limits.lease_ms") set.push_back("limits.heartbeat_ms=1");
    set.push_back(absl::StrCat(path, "=", value));
    // A variant needs a way to synchronise besides its name, and an optimizer a kind.
    if (path == "variant[0].name") set.insert(set.end() - 1, "variant[0].none={}");
    return Load(ValidSpec(), set);
  }

  // A server whose mode and policy read the field at `path`, and whatever else it needs.
  static std::string ServersAround(const std::string& path, const std::string& value) {
    const std::string field = path.substr(path.rfind('.') + 1);
    if (value == "BOUNDED") return "staleness: 2";
    if (value == "K_OF_N") return "k: 2";
    if (value == "CHAIN") return "servers: 2";
    if (field == "staleness") return "mode: BOUNDED";
    if (field == "k") return "mode: K_OF_N";
    if (field == "late") return "mode: K_OF_N k: 2";
    if (field == "rate" || field == "scale_by_staleness") return "mode: ASYNC";
    if (field == "replicas" || field == "aggregated") return "policy: CHAIN servers: 4";
    if (field == "snapshot_every") return "policy: SNAPSHOT";
    if (field == "servers_per_host") return "hosts: SHARED";
    return "";
  }

  // A fault whose kind reads the field at `path`, and whatever else it needs.
  static std::string FaultAround(const std::string& path, const std::string& value) {
    const std::string field = path.substr(path.find('.') + 1);
    if (field == "kind") {
      const bool lasts = value == "FREEZE" || value == "DELAY" || value == "DISK_FULL";
      const bool message = value == "DROP" || value == "DUPLICATE" || value == "CORRUPT";
      if (value == "CRASH_POINT") return "point: \"acknowledged\"";
      return absl::StrCat(lasts ? "for: \"1s\" " : "",
                          message || value == "DELAY" ? "message { to: 0 }" : "");
    }
    if (field == "for") return "kind: FREEZE";
    if (field == "after_bucket") return "kind: KILL";
    if (field == "point") return "kind: CRASH_POINT";
    if (field.rfind("message", 0) == 0) return "kind: DROP message { to: 0 }";
    return "kind: NAN_GRADIENT";
  }

  static bool Refuses(const LoadedSpec& spec, const std::string& path) {
    for (const SpecError& error : spec.errors) {
      const std::string& text = error.message;
      const bool named = text.find(path) != std::string::npos;
      const bool why = text.find("not built yet") != std::string::npos ||
                       text.find("out of range") != std::string::npos ||
                       text.find("conflicts with") != std::string::npos ||
                       text.find("leaves") != std::string::npos ||
                       text.find("is missing") != std::string::npos ||
                       text.find("is empty") != std::string::npos;
      if (named && why) return true;
    }
    return false;
  }

  // NOLINTNEXTLINE(misc-no-recursion): as deep as the schema, which is finite
  void Block(const FieldDescriptor& field, const std::string& pattern, const std::string& path) {
    const LoadedSpec spec = With(path, "{}");
    if (kAcceptedBlocks.contains(pattern)) {
      seen_.insert(pattern);
      EXPECT_THAT(spec.status(), IsOk()) << pattern;
    } else if (kOpenBlocks.contains(pattern)) {
      seen_.insert(pattern);
      EXPECT_FALSE(spec.errors.empty()) << pattern;
    } else {
      EXPECT_TRUE(Refuses(spec, path))
          << pattern << " is neither accepted nor refused: " << AllErrors(spec);
      return;
    }
    Walk(*field.message_type(), pattern, field.is_repeated() ? IndexedPath(path, 0) : path);
  }

  void Leaf(const FieldDescriptor& field, const std::string& pattern, const std::string& path) {
    ++leaves_;
    const auto accepted = kAccepted.find(pattern);
    if (accepted != kAccepted.end()) seen_.insert(pattern);
    const std::set<std::string> good =
        accepted == kAccepted.end() ? std::set<std::string>{} : accepted->second;
    for (const std::string& value : good) {
      EXPECT_THAT(With(path, value).status(), IsOk()) << pattern << " = " << value;
    }
    const bool number = accepted != kAccepted.end() &&
                        field.cpp_type() != FieldDescriptor::CPPTYPE_ENUM &&
                        field.cpp_type() != FieldDescriptor::CPPTYPE_BOOL;
    if (number) return;  // its range is the business of NumbersHaveRanges
    for (const std::string& value : ValuesToTry(field)) {
      if (good.contains(value)) continue;
      const LoadedSpec spec = With(path, value);
      EXPECT_TRUE(Refuses(spec, path))
          << pattern << " = " << value << " is ignored: " << AllErrors(spec);
    }
  }

  int leaves_ = 0;
  std::set<std::string> seen_;
};

TEST(EveryFieldTest, IsAcceptedOrRefusedNeverIgnored) {
  EveryField walk;
  walk.Walk(*Experiment::descriptor(), "", "");
  EXPECT_GT(walk.leaves(), 40);
  for (const auto& [path, values] : kAccepted) {
    EXPECT_EQ(walk.seen().count(path), 1u) << path << " was not reached";
  }
  for (const std::string& path : kAcceptedBlocks) EXPECT_EQ(walk.seen().count(path), 1u) << path;
  for (const std::string& path : kOpenBlocks) EXPECT_EQ(walk.seen().count(path), 1u) << path;
}

TEST(EveryFieldTest, NumbersHaveRanges) {
  const std::map<std::string, std::string> too_much = {{"train.steps", "-1"},
                                                       {"train.global_batch", "0"},
                                                       {"train.seeds", "9007199254740994"},
                                                       {"train.optimizer.sgd.learning_rate", "0"},
                                                       {"train.optimizer.sgd.momentum", "-0.1"},
                                                       {"bucket_cap_mb", "inf"},
                                                       {"workers", "0"},
                                                       {"variant[1].ps.servers", "65"},
                                                       {"variant[2].all_reduce.channels", "17"},
                                                       {"trace.steps", "1001"},
                                                       {"train.target_loss", "0"},
                                                       {"blocks", "1001"},
                                                       {"probe.every", "0"},
                                                       {"model.mlp.layers[1]", "0"}};
  for (const auto& [path, value] : too_much) {
    const LoadedSpec spec = Load(ValidSpec(), {absl::StrCat(path, "=", value)});
    ASSERT_EQ(spec.errors.size(), 1u) << path << AllErrors(spec);
    EXPECT_THAT(spec.errors[0].message, testing::HasSubstr("is out of range; allowed: ")) << path;
  }
  for (const LimitRow& row : kLimitRows) {
    for (const int64_t value : {row.min - 1, row.max + 1}) {
      const LoadedSpec spec = Load(ValidSpec(), {absl::StrCat("limits.", row.name, "=", value)});
      EXPECT_THAT(AllErrors(spec), testing::AllOf(testing::HasSubstr("is out of range; allowed: "),
                                                  testing::HasSubstr(row.meaning)));
    }
  }
}

TEST(EveryFieldTest, EveryLimitHasAFieldOfItsName) {
  EXPECT_EQ(static_cast<size_t>(LimitsSpec::descriptor()->field_count()), kLimitRows.size());
  for (const LimitRow& row : kLimitRows) {
    EXPECT_NE(LimitsSpec::descriptor()->FindFieldByName(row.name), nullptr) << row.name;
  }
}

}  // namespace
}  // namespace lockstep
