#include "ps_server/client/server_stream.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "ps_server/wire/grpc_frame.h"

namespace lockstep {
namespace {

std::shared_ptr<grpc::Channel> OpenChannel(const ServerStream::Options& options) {
  grpc::ChannelArguments arguments;
  for (const auto& [name, value] : ChannelSettings(options.message_bytes_max)) {
    arguments.SetInt(name, value);
  }
  // A connection of its own, also where several workers share a process.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(options.endpoint.ToString(), grpc::InsecureChannelCredentials(),
                                   arguments);
}

}  // namespace

ServerStream::ServerStream(const Options& options, grpc::CompletionQueue* queue,
                           std::shared_ptr<LentMemory> lent)
    : member_(absl::StrCat("server ", options.server)),
      name_(absl::StrCat(member_, " (", options.endpoint.ToString(), ")")),
      lent_(std::move(lent)),
      stub_(std::make_unique<grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer>>(
          OpenChannel(options))) {
  if (!options.token.empty()) context_.AddMetadata(kTokenMetadata, options.token);
  // Servers are bound before anybody hears of them: one that cannot be reached is gone.
  context_.set_wait_for_ready(false);
  io_ = stub_->PrepareCall(&context_, kExchangeMethod, queue);
  io_->StartCall(&start_);
}

void ServerStream::Send(const PsFrame& header, Bytes payload) {
  grpc::Slice slice;
  if (!payload.empty()) {
    lent_->Lend();
    slice = grpc::Slice(
        const_cast<std::byte*>(payload.data()), payload.size(),
        [](void* held) {
          auto* lent = static_cast<std::shared_ptr<LentMemory>*>(held);
          (*lent)->Return();
          delete lent;
        },
        new std::shared_ptr<LentMemory>(lent_));
  }
  queue_.push_back(MakeBuffer(header, slice));
  WriteNext();
}

void ServerStream::WriteNext() {
  if (!started_ || writing_ || broken_ || queue_.empty()) return;
  writing_ = true;
  traffic_.sent_bytes += static_cast<int64_t>(queue_.front().Length());
  ++traffic_.sent_messages;
  io_->Write(queue_.front(), &write_);
}

void ServerStream::ReadNext() { io_->Read(&incoming_, &read_); }

void ServerStream::Finish() {
  if (finishing_) return;
  finishing_ = true;
  io_->Finish(&final_, &finish_);
}

absl::Status ServerStream::OnEvent(Op op, bool ok, const OnFrame& on_frame) {
  switch (op) {
    case Op::kStart:
      started_ = ok;
      if (!ok) {
        Finish();
        break;
      }
      ReadNext();
      WriteNext();
      break;
    case Op::kRead:
      if (ok) {
        CountReceived();
        return OnRead(on_frame);
      }
      broken_ = true;
      Finish();
      break;
    case Op::kWrite:
      writing_ = false;
      queue_.pop_front();
      // A failed write means that the server ended the stream; what it said, or that it is gone,
      // comes with the read that is always outstanding.
      if (!ok) broken_ = true;
      WriteNext();
      break;
    case Op::kFinish:
      return Ended();
  }
  return absl::OkStatus();
}

void ServerStream::CountReceived() {
  traffic_.received_bytes += static_cast<int64_t>(incoming_.Length());
  ++traffic_.received_messages;
}

absl::Status ServerStream::OnRead(const OnFrame& on_frame) {
  ReceivedBytes received;
  if (!Unpack(incoming_, &received)) {
    return absl::InternalError(absl::StrCat(name_, " sent a message that gRPC cannot unpack"));
  }
  const absl::StatusOr<Frame> frame = DecodeFrame(received.pieces);
  if (!frame.ok()) {
    return absl::InternalError(absl::StrCat(name_, " sent a ", frame.status().message()));
  }
  ASSIGN_OR_RETURN(const bool taken, on_frame(*frame));
  kept_ = !taken;
  if (kept_) return absl::OkStatus();
  incoming_.Clear();
  ReadNext();
  return absl::OkStatus();
}

absl::Status ServerStream::Ended() const {
  const std::string what = absl::StrCat(
      name_, " is gone: ", final_.ok() ? "it ended the stream" : final_.error_message(),
      " (gRPC status ", static_cast<int>(final_.error_code()), ")");
  // gRPC's own bound on a message; every other end means that the server isn't there for us any
  // more.
  if (final_.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
    return absl::ResourceExhaustedError(what);
  }
  return Blame(absl::UnavailableError(what), {member_});
}

}  // namespace lockstep
