// Gloo behind engine/library.h, over its TCP transport. Built only where it is found. Rendezvous is
// ours: each rank's address is one row of a table that the caller exchanges. base/numeric folds, so
// that every dtype and reduction is there and NaN and -0 behave as everywhere.
#include "allreduce/engine/library.h"

#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/context.h>
#include <gloo/reduce.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/numeric/fold.h"
#include "base/status.h"

namespace lockstep {
namespace {

// The first two are Gloo's present interface, the others its older one, whose buffers are bound to
// memory once. Gloo's own choice is the ring.
constexpr std::array<const char*, 4> kAlgorithms = {"ring", "bcube", "ring_chunked",
                                                    "halving_doubling"};

// gloo::Context without a store: the pairs' addresses go out in one piece and come back in one.
class MeshContext final : public gloo::Context {
 public:
  using gloo::Context::Context;

  // [peer]: the address that peer must connect to, each filled up to kMaxByteSize.
  std::string Open(const std::string& host) {
    device_ = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(host.c_str()));
    transportContext_ = device_->createContext(rank, size);
    transportContext_->setTimeout(getTimeout());
    std::string row(kAddressBytes * static_cast<size_t>(size), '\0');
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      const std::vector<char> address = transportContext_->createPair(peer)->address().bytes();
      std::copy(address.begin(), address.end(),
                row.begin() + static_cast<std::ptrdiff_t>(Offset(peer)));
      address_bytes_ = address.size();
    }
    return row;
  }

  void Connect(const std::vector<std::string>& rows) {
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      const char* const address = rows[static_cast<size_t>(peer)].data() + Offset(rank);
      transportContext_->getPair(peer)->connect({address, address + address_bytes_});
    }
  }

 private:
  static constexpr size_t kAddressBytes = gloo::transport::Address::kMaxByteSize;
  static size_t Offset(int peer) { return kAddressBytes * static_cast<size_t>(peer); }
  size_t address_bytes_ = 0;
};

// The stored type of a size: Gloo's templates only move and count elements.
template <Dtype dtype>
using Stored = std::conditional_t<
    SizeOf(dtype) == 1, uint8_t,
    std::conditional_t<SizeOf(dtype) == 2, uint16_t,
                       std::conditional_t<SizeOf(dtype) == 4, uint32_t, uint64_t>>>;

template <Dtype dtype, ReduceOp op>
void FoldElements(Stored<dtype>* target, const Stored<dtype>* source, size_t count) {
  Fold(dtype, op, source, target, static_cast<int64_t>(count));
}

template <Dtype dtype>
auto* Folder(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMin:
      return FoldElements<dtype, ReduceOp::kMin>;
    case ReduceOp::kMax:
      return FoldElements<dtype, ReduceOp::kMax>;
    case ReduceOp::kProd:
      return FoldElements<dtype, ReduceOp::kProd>;
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      break;
  }
  return FoldElements<dtype, ReduceOp::kSum>;
}

// One of the older algorithms: its buffers are bound to one call's memory.
struct Bound {
  std::shared_ptr<void> function;  // the algorithm points at it, so it goes last
  std::unique_ptr<gloo::Algorithm> algorithm;
};

template <Dtype dtype, template <typename> typename Algorithm>
Bound BindTo(const std::shared_ptr<gloo::Context>& context, const LibraryCall& call) {
  using T = Stored<dtype>;
  auto function =
      std::make_shared<gloo::ReductionFunction<T>>(gloo::CUSTOM, Folder<dtype>(call.op));
  std::vector<T*> data = {static_cast<T*>(call.data)};
  auto algorithm =
      std::make_unique<Algorithm<T>>(context, data, static_cast<int>(call.count), function.get());
  return {std::move(function), std::move(algorithm)};
}

template <template <typename> typename Algorithm>
Bound Bind(const std::shared_ptr<gloo::Context>& context, const LibraryCall& call) {
  switch (call.dtype) {
    case Dtype::kF32:
      return BindTo<Dtype::kF32, Algorithm>(context, call);
    case Dtype::kF64:
      return BindTo<Dtype::kF64, Algorithm>(context, call);
    case Dtype::kF16:
      return BindTo<Dtype::kF16, Algorithm>(context, call);
    case Dtype::kBf16:
      return BindTo<Dtype::kBf16, Algorithm>(context, call);
    case Dtype::kI32:
      return BindTo<Dtype::kI32, Algorithm>(context, call);
    case Dtype::kI64:
      return BindTo<Dtype::kI64, Algorithm>(context, call);
    case Dtype::kU8:
      return BindTo<Dtype::kU8, Algorithm>(context, call);
  }
  return {};
}

class GlooLibrary final : public EngineLibrary {
 public:
  explicit GlooLibrary(const LibrarySetup& setup) : setup_(setup) {}

  std::string Version() const override {
    return absl::StrCat("Gloo ", GLOO_VERSION_MAJOR, ".", GLOO_VERSION_MINOR, ".",
                        GLOO_VERSION_PATCH);
  }

  bool AsksWhileWaiting() const override { return false; }

  absl::Status CheckHere(int /*ranks*/) override { return absl::OkStatus(); }

  absl::Status Prepare(std::string* address) override {
    return Guarded([&] {
      contexts_[algorithm_] = NewContext();
      *address = context()->Open(setup_.host);
    });
  }

  absl::Status Connect(const std::vector<std::string>& addresses,
                       const KeepWaiting& /*keep_waiting*/) override {
    return Guarded([&] { context()->Connect(addresses); });
  }

  std::vector<std::string> Algorithms() const override {
    return {kAlgorithms.begin(), kAlgorithms.end()};
  }

  absl::Status UseAlgorithm(const std::string& name) override {
    const auto* const it = std::find(kAlgorithms.begin(), kAlgorithms.end(), name);
    if (it == kAlgorithms.end()) {
      return absl::InvalidArgumentError(absl::StrCat("gloo: no algorithm '", name, "'"));
    }
    const auto algorithm = static_cast<size_t>(it - kAlgorithms.begin());
    if (contexts_[algorithm] == nullptr) {
      RETURN_IF_ERROR(Guarded([&] { contexts_[algorithm] = ConnectAnother(); }));
    }
    algorithm_ = algorithm;
    return absl::OkStatus();
  }

  absl::Status AllReduce(const LibraryCall& call) override {
    if (algorithm_ >= 2) return AllReduceBound(call);
    return WithBytes(call, [&](auto* data, size_t elements) {
      gloo::AllreduceOptions options(context());
      options.setAlgorithm(algorithm_ == 0 ? gloo::AllreduceOptions::Algorithm::RING
                                           : gloo::AllreduceOptions::Algorithm::BCUBE);
      options.setOutput(data, elements);
      options.setReduceFunction(FolderOf(call));
      options.setTag(NextTag());
      options.setTimeout(std::chrono::milliseconds(call.timeout_ms));
      gloo::allreduce(options);
    });
  }

  absl::Status Reduce(const LibraryCall& call) override {
    return WithBytes(call, [&](auto* data, size_t elements) {
      // Every rank needs a result buffer, the root's is its own.
      gloo::ReduceOptions options(context());
      options.setOutput(data, elements);
      options.setRoot(call.root);
      options.setReduceFunction(FolderOf(call));
      options.setTag(NextTag());
      options.setTimeout(std::chrono::milliseconds(call.timeout_ms));
      gloo::reduce(options);
    });
  }

  absl::Status Broadcast(const LibraryCall& call) override {
    return WithBytes(call, [&](auto* data, size_t elements) {
      gloo::BroadcastOptions options(context());
      options.setOutput(data, elements);
      options.setRoot(call.root);
      options.setTag(NextTag());
      options.setTimeout(std::chrono::milliseconds(call.timeout_ms));
      gloo::broadcast(options);
    });
  }

  // Gloo's own reduce-scatter knows powers of two alone; the whole result holds every part.
  absl::Status ReduceScatter(const LibraryCall& call) override { return AllReduce(call); }

  absl::Status AllGather(const LibraryCall& call) override {
    return WithBytes(call, [&](auto* data, size_t elements) {
      const auto n = static_cast<size_t>(setup_.world_size);
      std::vector<size_t> counts(n, elements / n);
      for (size_t rank = 0; rank < elements % n; ++rank) ++counts[rank];
      gloo::AllgathervOptions options(context());
      options.setOutput(data, counts);  // in place: no input of its own
      options.setTag(NextTag());
      options.setTimeout(std::chrono::milliseconds(call.timeout_ms));
      gloo::allgatherv(options);
    });
  }

  absl::Status Settle() override {
    return Guarded([&] {
      gloo::BarrierOptions options(context());
      options.setTag(NextTag());
      gloo::barrier(options);
    });
  }

  std::unique_ptr<EngineLibrary> Group(const LibrarySetup& setup,
                                       const std::vector<int>& /*ranks*/) override {
    return std::make_unique<GlooLibrary>(setup);  // connections of its own
  }

  void Cancel() override {
    for (const std::shared_ptr<MeshContext>& context : contexts_) {
      if (context != nullptr) context->closeConnections();
    }
  }

 private:
  // Each algorithm has connections of its own: the older ones set the send buffers of theirs to the
  // size of their smallest message, behind which the others' large ones would crawl.
  const std::shared_ptr<MeshContext>& context() const { return contexts_[algorithm_]; }

  std::shared_ptr<MeshContext> NewContext() const {
    auto context = std::make_shared<MeshContext>(setup_.rank, setup_.world_size);
    context->setTimeout(std::chrono::milliseconds(setup_.connect_timeout_ms));
    return context;
  }

  // Its addresses go over the present one. Throws.
  std::shared_ptr<MeshContext> ConnectAnother() {
    std::shared_ptr<MeshContext> context = NewContext();
    const std::string own = context->Open(setup_.host);
    const auto n = static_cast<size_t>(setup_.world_size);
    std::string table(n * own.size(), '\0');
    std::copy(
        own.begin(), own.end(),
        table.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(setup_.rank) * own.size()));
    gloo::AllgathervOptions options(this->context());
    options.setOutput(table.data(), std::vector<size_t>(n, own.size()));
    options.setTag(NextTag());
    gloo::allgatherv(options);
    std::vector<std::string> rows;
    rows.reserve(n);
    for (size_t rank = 0; rank < n; ++rank) {
      rows.push_back(table.substr(rank * own.size(), own.size()));
    }
    context->Connect(rows);
    return context;
  }

  static gloo::AllreduceOptions::Func FolderOf(const LibraryCall& call) {
    return [dtype = call.dtype, op = call.op](void* out, const void* a, const void* b,
                                              size_t elements) {
      const auto count = static_cast<int64_t>(elements);
      if (out == b) return Fold(dtype, op, a, out, count);
      if (out != a) std::memcpy(out, a, static_cast<size_t>(count * SizeOf(dtype)));
      Fold(dtype, op, b, out, count);
    };
  }

  // body(pointer to elements of the right size, their number)
  template <typename Body>
  absl::Status WithBytes(const LibraryCall& call, const Body& body) {
    const auto elements = static_cast<size_t>(call.count);
    return Guarded([&] {
      switch (SizeOf(call.dtype)) {
        case 1:
          return body(static_cast<uint8_t*>(call.data), elements);
        case 2:
          return body(static_cast<uint16_t*>(call.data), elements);
        case 4:
          return body(static_cast<uint32_t*>(call.data), elements);
        default:
          return body(static_cast<uint64_t*>(call.data), elements);
      }
    });
  }

  absl::Status AllReduceBound(const LibraryCall& call) {
    if (call.count > std::numeric_limits<int>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat("gloo: ", kAlgorithms[algorithm_], " counts in int, not ", call.count));
    }
    return Guarded([&] {
      if (bound_.algorithm == nullptr || bound_to_ != Key(call)) {
        bound_ = {};
        context()->setTimeout(std::chrono::milliseconds(call.timeout_ms));
        bound_ = algorithm_ == 2 ? Bind<gloo::AllreduceRingChunked>(context(), call)
                                 : Bind<gloo::AllreduceHalvingDoubling>(context(), call);
        bound_to_ = Key(call);
      }
      bound_.algorithm->run();
    });
  }

  using Binding = std::tuple<size_t, void*, int64_t, Dtype, ReduceOp>;
  Binding Key(const LibraryCall& call) const {
    return {algorithm_, call.data, call.count, call.dtype, call.op};
  }

  // Ranks make the same calls, so they count alike. A tag is taken again only when the call that
  // had it is long over.
  uint32_t NextTag() { return next_tag_++ % kTags; }

  // Gloo reports by exception; none goes further.
  template <typename Body>
  static absl::Status Guarded(const Body& body) {
    try {
      body();
    } catch (const std::exception& error) {
      const std::string text = absl::StrCat("gloo: ", error.what());
      // Its exceptions have no kinds for this.
      const bool late = absl::StrContains(text, "imed out") || absl::StrContains(text, "timeout");
      return late ? absl::DeadlineExceededError(text) : absl::UnavailableError(text);
    }
    return absl::OkStatus();
  }

  static constexpr uint32_t kTags = 1U << 16;
  const LibrarySetup setup_;
  size_t algorithm_ = 0;  // of kAlgorithms
  std::array<std::shared_ptr<MeshContext>, kAlgorithms.size()>
      contexts_;  // [algorithm]; null: none
  uint32_t next_tag_ = 0;
  Bound bound_;
  Binding bound_to_;
};

}  // namespace
}  // namespace lockstep

extern "C" __attribute__((visibility("default"))) lockstep::EngineLibrary*
LockstepMakeEngineLibrary(const lockstep::LibrarySetup& setup) {
  return new lockstep::GlooLibrary(setup);  // the caller owns it
}
