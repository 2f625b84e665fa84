// The roof of gRPC, server's side: a stream a worker, bytes in, as many bytes out.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <map>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/socket.h"
#include "base/status.h"
#include "base/sync.h"
#include "experiments/bench/ps/grpc_end.h"
#include "proto/parameter_server.grpc.pb.h"
#include "ps_server/wire/grpc_frame.h"

namespace lockstep {
namespace {

using RawService = ParameterServer::WithRawMethod_Exchange<ParameterServer::Service>;

struct Stream;
enum class Op { kAccept, kRead, kWrite };
struct Tag {
  Stream* stream;
  Op op;
};
struct Stream {
  grpc::ServerContext context;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> io{&context};
  Tag accept{this, Op::kAccept};
  Tag read{this, Op::kRead};
  Tag write{this, Op::kWrite};
  grpc::ByteBuffer incoming;
  int64_t to_receive = 0;
  int64_t to_send = 0;
  bool writing = false;
};

class GrpcServerEnd final : public PsEnd {
 public:
  explicit GrpcServerEnd(const PsEndOptions& options)
      : options_(options),
        bytes_(options.BytesOf(options.rank - options.workers)),
        chunk_(static_cast<size_t>(std::min(options.limits.chunk_bytes, bytes_))) {}
  ~GrpcServerEnd() override {
    server_->Shutdown(gpr_now(GPR_CLOCK_MONOTONIC));
    queue_->Shutdown();
    thread_.join();
  }

  absl::Status Open() {
    grpc::ServerBuilder builder;
    for (const auto& [name, value] : ChannelSettings(options_.limits.message_bytes_max)) {
      builder.AddChannelArgument(name, value);
    }
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return absl::InternalError("grpc roof: cannot listen on 127.0.0.1");
    address_ = absl::StrCat("127.0.0.1:", port);
    for (int i = 0; i < options_.workers; ++i) {
      streams_.push_back(std::make_unique<Stream>());
      Stream& stream = *streams_.back();
      stream.to_receive = bytes_;
      service_.RequestExchange(&stream.context, &stream.io, queue_.get(), queue_.get(),
                               &stream.accept);
    }
    thread_ = std::thread([this] { Poll(); });
    return absl::OkStatus();
  }
  std::string Address() const override { return address_; }
  absl::Status Connect(const std::vector<std::string>& /*addresses*/) override {
    return absl::OkStatus();
  }
  absl::Status Step() override { return absl::InternalError("a server makes no steps"); }

  absl::Status Serve(int64_t steps) override {
    MutexLock lock(&mu_);
    wanted_ += steps * options_.workers;
    const bool there =
        mu_.AwaitFor([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return served_ >= wanted_; },
                     options_.limits.sync_timeout_ms);
    if (there) return absl::OkStatus();
    return absl::DeadlineExceededError(absl::StrCat("grpc roof, server ",
                                                    options_.rank - options_.workers, ": ", served_,
                                                    " of ", wanted_, " exchanges"));
  }

 private:
  void Poll() {
    void* tag = nullptr;
    bool ok = false;
    while (queue_->Next(&tag, &ok)) {
      if (ok) On(*static_cast<Tag*>(tag));  // not ok: the stream is over
    }
  }
  void On(const Tag& tag) {
    Stream& stream = *tag.stream;
    switch (tag.op) {
      case Op::kAccept:
        stream.io.Read(&stream.incoming, &stream.read);
        return;
      case Op::kRead:
        stream.to_receive -= static_cast<int64_t>(stream.incoming.Length());
        stream.incoming.Clear();
        if (stream.to_receive == 0) {
          stream.to_receive = bytes_;
          stream.to_send = bytes_;
        }
        stream.io.Read(&stream.incoming, &stream.read);
        break;
      case Op::kWrite:
        stream.writing = false;
        if (stream.to_send == 0) {
          MutexLock lock(&mu_);
          ++served_;
        }
        break;
    }
    if (!stream.writing && stream.to_send > 0) Write(&stream);
  }
  void Write(Stream* stream) {
    const auto size =
        static_cast<size_t>(std::min(static_cast<int64_t>(chunk_.size()), stream->to_send));
    const grpc::Slice slice(chunk_.data(), size, grpc::Slice::STATIC_SLICE);
    stream->to_send -= static_cast<int64_t>(size);
    stream->writing = true;
    stream->io.Write(grpc::ByteBuffer(&slice, 1), &stream->write);
  }

  const PsEndOptions options_;
  const int64_t bytes_;
  const std::vector<char> chunk_;
  RawService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  std::vector<std::unique_ptr<Stream>> streams_;
  Mutex mu_;
  int64_t served_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t wanted_ ABSL_GUARDED_BY(mu_) = 0;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PsEnd>> MakeGrpcServerEnd(const PsEndOptions& options) {
  auto server = std::make_unique<GrpcServerEnd>(options);
  RETURN_IF_ERROR(server->Open());
  return server;
}

}  // namespace lockstep
