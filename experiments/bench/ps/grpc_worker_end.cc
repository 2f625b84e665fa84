// The roof of gRPC, worker's side: one stream a server, polled by the calling thread.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "experiments/bench/ps/grpc_end.h"
#include "ps_server/wire/grpc_frame.h"

namespace lockstep {
namespace {

constexpr int64_t kLookMs = 100;  // at the abort

class GrpcWorkerEnd final : public PsEnd {
 public:
  GrpcWorkerEnd(const PsEndOptions& options, const Clock& clock, const Abort& abort)
      : options_(options), clock_(clock), abort_(abort) {
    gradients_.resize(static_cast<size_t>(options.bytes));
  }
  ~GrpcWorkerEnd() override {
    for (const auto& stream : streams_) stream->context.TryCancel();
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  absl::Status Connect(const std::vector<std::string>& addresses) override {
    int64_t offset = 0;
    for (int k = 0; k < options_.servers; ++k) {
      auto stream = std::make_unique<Stream>();
      grpc::ChannelArguments arguments;
      for (const auto& [name, value] : ChannelSettings(options_.limits.message_bytes_max)) {
        arguments.SetInt(name, value);
      }
      stream->offset = offset;
      stream->bytes = options_.BytesOf(k);
      offset += stream->bytes;
      stream->stub = std::make_unique<Stub>(grpc::CreateCustomChannel(
          addresses[static_cast<size_t>(options_.workers) + static_cast<size_t>(k)],
          grpc::InsecureChannelCredentials(), arguments));
      stream->io = stream->stub->PrepareCall(&stream->context, kExchangeMethod, &queue_);
      stream->io->StartCall(&stream->start);
      streams_.push_back(std::move(stream));
    }
    return Turn("connect", [this] {
      return std::all_of(streams_.begin(), streams_.end(),
                         [](const auto& stream) { return stream->started; });
    });
  }

  absl::Status Step() override {
    for (const auto& stream : streams_) {
      stream->to_send = stream->to_receive = stream->bytes;
      Write(stream.get());
    }
    return Turn("step", [this] {
      return std::all_of(streams_.begin(), streams_.end(), [](const auto& stream) {
        return stream->to_send == 0 && stream->to_receive == 0 && !stream->writing;
      });
    });
  }
  absl::Status Serve(int64_t /*steps*/) override {
    return absl::InternalError("a worker serves nobody");
  }

 private:
  using Stub = grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer>;
  enum class Op { kStart, kRead, kWrite };
  struct Stream;
  struct Tag {
    Stream* stream;
    Op op;
  };
  struct Stream {
    Tag start{this, Op::kStart};
    Tag read{this, Op::kRead};
    Tag write{this, Op::kWrite};
    std::unique_ptr<Stub> stub;
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> io;
    grpc::ByteBuffer incoming;
    int64_t offset = 0;  // of its part of the gradients
    int64_t bytes = 0;
    int64_t to_send = 0;
    int64_t to_receive = 0;
    bool started = false;
    bool writing = false;
  };

  template <typename Done>
  absl::Status Turn(const char* what, const Done& done) {
    const int64_t deadline_ns = clock_.NowNs() + options_.limits.sync_timeout_ms * kNsPerMs;
    while (!done()) {
      RETURN_IF_ERROR(abort_.status());
      if (clock_.NowNs() > deadline_ns) {
        return absl::DeadlineExceededError(absl::StrCat("grpc roof, worker ", options_.rank, ": ",
                                                        what, " did not end within ",
                                                        options_.limits.sync_timeout_ms, " ms"));
      }
      void* tag = nullptr;
      bool ok = false;
      const gpr_timespec look = AfterNs(kLookMs * kNsPerMs);
      if (queue_.AsyncNext(&tag, &ok, look) != grpc::CompletionQueue::GOT_EVENT) continue;
      if (!ok) {
        return absl::UnavailableError(
            absl::StrCat("grpc roof, worker ", options_.rank, ": a server is gone"));
      }
      On(*static_cast<Tag*>(tag));
    }
    return absl::OkStatus();
  }

  void On(const Tag& tag) {
    Stream& stream = *tag.stream;
    switch (tag.op) {
      case Op::kStart:
        stream.started = true;
        stream.io->Read(&stream.incoming, &stream.read);
        return;
      case Op::kRead:
        stream.to_receive -= static_cast<int64_t>(stream.incoming.Length());
        stream.incoming.Clear();
        stream.io->Read(&stream.incoming, &stream.read);
        return;
      case Op::kWrite:
        stream.writing = false;
        if (stream.to_send > 0) Write(&stream);
        return;
    }
  }
  void Write(Stream* stream) {
    if (stream->to_send == 0) return;
    const int64_t size = std::min(options_.limits.chunk_bytes, stream->to_send);
    const grpc::Slice slice(gradients_.data() + stream->offset + stream->bytes - stream->to_send,
                            static_cast<size_t>(size), grpc::Slice::STATIC_SLICE);
    stream->to_send -= size;
    stream->writing = true;
    stream->io->Write(grpc::ByteBuffer(&slice, 1), &stream->write);
  }

  const PsEndOptions options_;
  const Clock& clock_;
  const Abort& abort_;
  std::vector<char> gradients_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PsEnd>> MakeGrpcWorkerEnd(const PsEndOptions& options,
                                                         const Clock& clock, const Abort& abort) {
  return std::make_unique<GrpcWorkerEnd>(options, clock, abort);
}

}  // namespace lockstep
