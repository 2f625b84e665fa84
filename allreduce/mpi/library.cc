// Open MPI behind engine/library.h. Built only where it is found; base/numeric folds what MPI has
// no type or no rule for: f16, bf16, and MIN and MAX of floats (NaN wins, -0 < +0, as everywhere).
#define OMPI_SKIP_MPICXX 1
#include "allreduce/engine/library.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/numeric/fold.h"
#include "base/status.h"

namespace lockstep {
namespace {

// A piece of a larger call: MPI counts in int.
constexpr int64_t kElementsMax = int64_t{1} << 30;

constexpr std::array<const char*, 7> kAlgorithms = {
    "default", "linear",         "nonoverlapping", "recursive_doubling",
    "ring",    "segmented_ring", "rabenseifner"};  // [number of coll_tuned_allreduce_algorithm]
constexpr char kAlgorithmVariable[] = "coll_tuned_allreduce_algorithm";

absl::Status ToStatus(int error, const char* what) {
  if (error == MPI_SUCCESS) return absl::OkStatus();
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int bytes = 0;
  MPI_Error_string(error, text.data(), &bytes);
  return absl::UnavailableError(
      absl::StrCat("mpi: ", what, ": ", std::string(text.data(), static_cast<size_t>(bytes))));
}

MPI_Datatype TypeOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return MPI_FLOAT;
    case Dtype::kF64:
      return MPI_DOUBLE;
    case Dtype::kI32:
      return MPI_INT32_T;
    case Dtype::kI64:
      return MPI_INT64_T;
    case Dtype::kU8:
      return MPI_UINT8_T;
    case Dtype::kF16:
    case Dtype::kBf16:
      return MPI_UINT16_T;
  }
  return MPI_DATATYPE_NULL;
}

template <Dtype dtype, ReduceOp op>
void FoldElements(void* source, void* target, int* count, MPI_Datatype*) {
  Fold(dtype, op, source, target, *count);
}

struct OwnFold {
  Dtype dtype;
  ReduceOp op;
  MPI_User_function* function;
};
#define OWN_FOLD(dtype, op) \
  OwnFold { dtype, op, FoldElements<dtype, op> }
constexpr std::array kOwnFolds = {
    OWN_FOLD(Dtype::kF32, ReduceOp::kMin),  OWN_FOLD(Dtype::kF32, ReduceOp::kMax),
    OWN_FOLD(Dtype::kF64, ReduceOp::kMin),  OWN_FOLD(Dtype::kF64, ReduceOp::kMax),
    OWN_FOLD(Dtype::kF16, ReduceOp::kSum),  OWN_FOLD(Dtype::kF16, ReduceOp::kMin),
    OWN_FOLD(Dtype::kF16, ReduceOp::kMax),  OWN_FOLD(Dtype::kF16, ReduceOp::kProd),
    OWN_FOLD(Dtype::kBf16, ReduceOp::kSum), OWN_FOLD(Dtype::kBf16, ReduceOp::kMin),
    OWN_FOLD(Dtype::kBf16, ReduceOp::kMax), OWN_FOLD(Dtype::kBf16, ReduceOp::kProd),
};
#undef OWN_FOLD

template <size_t n, typename Handle>
std::array<Handle, n> Nothing(Handle null) {
  std::array<Handle, n> handles{};
  handles.fill(null);
  return handles;
}

// Sets one of Open MPI's integer variables; it is read when a communicator is made.
absl::Status WriteVariable(const char* name, int value) {
  int index = 0;
  int count = 0;
  MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
  const bool written = MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS &&
                       MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS &&
                       MPI_T_cvar_write(handle, &value) == MPI_SUCCESS;
  if (handle != MPI_T_CVAR_HANDLE_NULL) MPI_T_cvar_handle_free(&handle);
  if (written) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("mpi: this Open MPI does not let its variable ", name, " be set"));
}

class MpiLibrary final : public EngineLibrary {
 public:
  explicit MpiLibrary(const LibrarySetup& setup) : setup_(setup) {}
  // Of some ranks of `parent`.
  MpiLibrary(const LibrarySetup& setup, MPI_Comm parent, std::vector<int> ranks)
      : setup_(setup), parent_(parent), ranks_(std::move(ranks)) {}

  bool EndsTogether() const override { return parent_ == MPI_COMM_NULL && comm_ != MPI_COMM_NULL; }
  // Finalize waits for every rank, so after an error the process ends without it: mpirun then ends
  // the others.
  ~MpiLibrary() override {
    if (comm_ == MPI_COMM_NULL || broken_) return;
    for (MPI_Op& op : own_ops_) {
      if (op != MPI_OP_NULL) MPI_Op_free(&op);
    }
    for (MPI_Comm& comm : tuned_) {
      if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
    }
    MPI_Comm_free(&comm_);
    if (parent_ != MPI_COMM_NULL) return;
    MPI_T_finalize();
    MPI_Finalize();
  }
  MpiLibrary(const MpiLibrary&) = delete;
  MpiLibrary& operator=(const MpiLibrary&) = delete;

  std::string Version() const override {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int bytes = 0;
    MPI_Get_library_version(text.data(), &bytes);
    const std::string all(text.data(), static_cast<size_t>(bytes));
    return all.substr(0, all.find(','));
  }

  bool AsksWhileWaiting() const override { return true; }

  absl::Status CheckHere(int /*ranks*/) override { return absl::OkStatus(); }

  absl::Status Prepare(std::string* address) override {
    address->clear();
    return absl::OkStatus();
  }

  absl::Status Connect(const std::vector<std::string>& /*addresses*/,
                       const KeepWaiting& /*keep_waiting*/) override {
    return parent_ == MPI_COMM_NULL ? Start() : Split();
  }
  std::vector<std::string> Algorithms() const override {
    return {kAlgorithms.begin(), kAlgorithms.end()};
  }

  absl::Status UseAlgorithm(const std::string& name) override {
    const auto* const it = std::find(kAlgorithms.begin(), kAlgorithms.end(), name);
    if (it == kAlgorithms.end()) {
      return absl::InvalidArgumentError(absl::StrCat("mpi: no algorithm '", name, "'"));
    }
    const auto number = static_cast<size_t>(it - kAlgorithms.begin());
    present_ = &tuned_[number];
    if (*present_ != MPI_COMM_NULL) return absl::OkStatus();
    RETURN_IF_ERROR(WriteVariable(kAlgorithmVariable, static_cast<int>(number)));
    return Done(MPI_Comm_dup(comm_, present_), "MPI_Comm_dup");
  }

  absl::Status AllReduce(const LibraryCall& call) override {
    MPI_Comm comm = *present_;
    return InPieces(call, [&](void* data, int count, MPI_Request* request) {
      MPI_Datatype type = TypeOf(call.dtype);
      MPI_Op op = OpOf(call);
      return request == nullptr
                 ? MPI_Allreduce(MPI_IN_PLACE, data, count, type, op, comm)
                 : MPI_Iallreduce(MPI_IN_PLACE, data, count, type, op, comm, request);
    });
  }

  absl::Status Reduce(const LibraryCall& call) override {
    return InPieces(call, [&](void* data, int count, MPI_Request* request) {
      const bool root = call.root == setup_.rank;
      const void* const source = root ? MPI_IN_PLACE : data;
      void* const target = root ? data : nullptr;
      MPI_Datatype type = TypeOf(call.dtype);
      MPI_Op op = OpOf(call);
      return request == nullptr
                 ? MPI_Reduce(source, target, count, type, op, call.root, comm_)
                 : MPI_Ireduce(source, target, count, type, op, call.root, comm_, request);
    });
  }

  absl::Status Broadcast(const LibraryCall& call) override {
    return InPieces(call, [&](void* data, int count, MPI_Request* request) {
      MPI_Datatype type = TypeOf(call.dtype);
      return request == nullptr ? MPI_Bcast(data, count, type, call.root, comm_)
                                : MPI_Ibcast(data, count, type, call.root, comm_, request);
    });
  }

  absl::Status ReduceScatter(const LibraryCall& call) override {
    RETURN_IF_ERROR(CutParts(call));
    // MPI puts the result at the start of its buffer in place; ours belongs where the part stands.
    std::byte* const data = static_cast<std::byte*>(call.data);
    std::vector<std::byte>& part = part_;
    const auto own = static_cast<size_t>(setup_.rank);
    part.resize(static_cast<size_t>(counts_[own] * SizeOf(call.dtype)));
    MPI_Datatype type = TypeOf(call.dtype);
    MPI_Op op = OpOf(call);
    RETURN_IF_ERROR(Call(call, [&](MPI_Request* request) {
      return request == nullptr
                 ? MPI_Reduce_scatter(data, part.data(), counts_.data(), type, op, comm_)
                 : MPI_Ireduce_scatter(data, part.data(), counts_.data(), type, op, comm_, request);
    }));
    std::copy(part.begin(), part.end(), data + starts_[own] * SizeOf(call.dtype));
    return absl::OkStatus();
  }

  absl::Status AllGather(const LibraryCall& call) override {
    RETURN_IF_ERROR(CutParts(call));
    MPI_Datatype type = TypeOf(call.dtype);
    return Call(call, [&](MPI_Request* request) {
      return request == nullptr ? MPI_Allgatherv(MPI_IN_PLACE, 0, type, call.data, counts_.data(),
                                                 starts_.data(), type, comm_)
                                : MPI_Iallgatherv(MPI_IN_PLACE, 0, type, call.data, counts_.data(),
                                                  starts_.data(), type, comm_, request);
    });
  }

  absl::Status Settle() override { return Done(MPI_Barrier(comm_), "MPI_Barrier"); }

  std::unique_ptr<EngineLibrary> Group(const LibrarySetup& setup,
                                       const std::vector<int>& ranks) override {
    return std::make_unique<MpiLibrary>(setup, comm_, ranks);
  }

  void Cancel() override { broken_ = true; }  // a wait ends by keep_waiting

 private:
  absl::Status Start() {
    int done = 0;
    MPI_Initialized(&done);
    if (done != 0) {
      return absl::FailedPreconditionError("mpi: this process has started MPI before, once only");
    }
    int provided = 0;
    // Serialized: the thread that exchanges need not be the one that started.
    RETURN_IF_ERROR(
        ToStatus(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init"));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int tools = 0;  // for WriteVariable
    RETURN_IF_ERROR(ToStatus(MPI_T_init_thread(MPI_THREAD_SERIALIZED, &tools), "MPI_T_init"));
    int world_size = 0;
    RETURN_IF_ERROR(ToStatus(MPI_Comm_size(MPI_COMM_WORLD, &world_size), "MPI_Comm_size"));
    if (world_size != setup_.world_size || provided < MPI_THREAD_SERIALIZED) {
      broken_ = true;
      return absl::FailedPreconditionError(
          absl::StrCat("mpi: mpirun started ", world_size, " processes, the group has ",
                       setup_.world_size, " ranks; thread level ", provided));
    }
    // Its ranks in our order, whatever mpirun's is.
    return Done(MPI_Comm_split(MPI_COMM_WORLD, 0, setup_.rank, &comm_), "MPI_Comm_split");
  }

  absl::Status Split() {
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group some = MPI_GROUP_NULL;
    MPI_Comm_group(parent_, &all);
    MPI_Group_incl(all, setup_.world_size, ranks_.data(), &some);
    const int error = MPI_Comm_create_group(parent_, some, /*tag=*/0, &comm_);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    return Done(error, "MPI_Comm_create_group");
  }

  // The reduction as MPI's own where that keeps the promises of base/numeric, else folded by it.
  MPI_Op OpOf(const LibraryCall& call) {
    for (size_t i = 0; i < kOwnFolds.size(); ++i) {
      if (kOwnFolds[i].dtype != call.dtype || kOwnFolds[i].op != call.op) continue;
      if (own_ops_[i] == MPI_OP_NULL) {
        MPI_Op_create(kOwnFolds[i].function, /*commute=*/1, &own_ops_[i]);
      }
      return own_ops_[i];
    }
    switch (call.op) {
      case ReduceOp::kSum:
        return MPI_SUM;
      case ReduceOp::kMin:
        return MPI_MIN;
      case ReduceOp::kMax:
        return MPI_MAX;
      case ReduceOp::kProd:
        return MPI_PROD;
      case ReduceOp::kAvg:
        break;
    }
    return MPI_OP_NULL;
  }

  absl::Status CutParts(const LibraryCall& call) {
    if (call.count > std::numeric_limits<int>::max()) {
      return absl::InvalidArgumentError(absl::StrCat("mpi: parts of ", call.count,
                                                     " elements: MPI counts in int, at most ",
                                                     std::numeric_limits<int>::max()));
    }
    const auto n = static_cast<int64_t>(setup_.world_size);
    counts_.clear();
    starts_.clear();
    int64_t start = 0;
    for (int64_t rank = 0; rank < n; ++rank) {
      const int64_t count = call.count / n + (rank < call.count % n ? 1 : 0);
      counts_.push_back(static_cast<int>(count));
      starts_.push_back(static_cast<int>(start));
      start += count;
    }
    return absl::OkStatus();
  }

  template <typename Start>
  absl::Status InPieces(const LibraryCall& call, const Start& start) {
    for (int64_t done = 0; done < call.count; done += kElementsMax) {
      std::byte* const data = static_cast<std::byte*>(call.data) + done * SizeOf(call.dtype);
      const auto count = static_cast<int>(std::min(kElementsMax, call.count - done));
      RETURN_IF_ERROR(
          Call(call, [&](MPI_Request* request) { return start(data, count, request); }));
    }
    return absl::OkStatus();
  }

  // Blocking without a watch; else started, and looked at until it is through. A call that is given
  // up stays with MPI, which is never called again and so touches nothing.
  template <typename Start>
  absl::Status Call(const LibraryCall& call, const Start& start) {
    if (!call.keep_waiting) return Done(start(nullptr), "collective");
    MPI_Request request = MPI_REQUEST_NULL;
    RETURN_IF_ERROR(Done(start(&request), "collective"));
    int through = 0;
    RETURN_IF_ERROR(Done(MPI_Test(&request, &through, MPI_STATUS_IGNORE), "collective"));
    while (through == 0) {
      const absl::Status status = call.keep_waiting();
      if (!status.ok()) broken_ = true;
      RETURN_IF_ERROR(status);
      RETURN_IF_ERROR(Done(MPI_Test(&request, &through, MPI_STATUS_IGNORE), "collective"));
    }
    return absl::OkStatus();
  }

  absl::Status Done(int error, const char* what) {
    if (error != MPI_SUCCESS) broken_ = true;
    return ToStatus(error, what);
  }

  const LibrarySetup setup_;
  MPI_Comm parent_ = MPI_COMM_NULL;  // a group's
  const std::vector<int> ranks_;     // of the parent
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::array<MPI_Comm, kAlgorithms.size()> tuned_ = Nothing<kAlgorithms.size()>(MPI_COMM_NULL);
  MPI_Comm* present_ = &comm_;  // of AllReduce: comm_, or one of tuned_
  std::array<MPI_Op, kOwnFolds.size()> own_ops_ = Nothing<kOwnFolds.size()>(MPI_OP_NULL);
  std::vector<int> counts_;  // [rank], of the present call's parts
  std::vector<int> starts_;
  std::vector<std::byte> part_;
  std::atomic<bool> broken_ = false;
};

}  // namespace
}  // namespace lockstep

extern "C" __attribute__((visibility("default"))) lockstep::EngineLibrary*
LockstepMakeEngineLibrary(const lockstep::LibrarySetup& setup) {
  return new lockstep::MpiLibrary(setup);  // the caller owns it
}
