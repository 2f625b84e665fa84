#include "ps_server/service/call.h"

#include <utility>
#include <vector>

#include "ps_server/wire/grpc_frame.h"

namespace lockstep {
namespace {

// A view that keeps its owner alive as long as gRPC holds it.
grpc::Slice SliceOf(Bytes bytes, const std::shared_ptr<const void>& owner) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size(),
          [](void* held) { delete static_cast<std::shared_ptr<const void>*>(held); },
          new std::shared_ptr<const void>(owner)};
}

}  // namespace

void Call::ReadNext() {
  if (stopped_ || broken_ || finished_) return;
  reading_ = true;
  StartRead(&incoming_);
}

const Call::Frame* Call::WriteNext(int64_t chunk_bytes) {
  if (!begun_ || stopped_ || silenced_ || broken_ || finished_) return nullptr;
  if (writing_ || last_written_ || queue_.empty()) return nullptr;
  Chunk chunk = NextChunk(queue_.front(), chunk_bytes, &sent_bytes_);
  std::vector<grpc::Slice> slices;
  for (const Bytes piece : chunk.pieces) slices.push_back(SliceOf(piece, chunk.owner));
  const grpc::ByteBuffer buffer = MakeBuffer(chunk.header, slices);
  writing_ = true;
  in_flight_ = {std::move(chunk.header), static_cast<int64_t>(buffer.Length()), chunk.complete};
  StartWrite(buffer);
  if (chunk.complete) {
    last_written_ = queue_.front().last;
    queue_.pop_front();
    sent_bytes_ = 0;
  }
  return &in_flight_;
}

void Call::OnDone(Op op, bool ok) {
  switch (op) {
    case Op::kStart:
      begun_ = ok;
      broken_ = !ok;
      ReadNext();
      break;
    case Op::kRead:
      reading_ = false;
      broken_ = broken_ || !ok;
      break;
    case Op::kWrite:
      writing_ = false;
      silenced_ = silenced_ || !ok;
      break;
    case Op::kFinish:
      finishing_ = false;
      break;
  }
}

void Call::FinishIfDone() {
  if (stopped_ || finished_ || writing_ || !(broken_ || last_written_)) return;
  finished_ = true;
  finishing_ = true;
  StartFinish();
}

AcceptedCall::AcceptedCall(int64_t id, Service* service, grpc::ServerCompletionQueue* queue)
    : Call(id) {
  service->RequestExchange(&context_, &io_, queue, queue, start_tag());
}

std::string AcceptedCall::token() const {
  const auto& metadata = context_.client_metadata();
  const auto token = metadata.find(kTokenMetadata);
  if (token == metadata.end()) return "";
  return {token->second.data(), token->second.size()};
}

DialedCall::DialedCall(int64_t id, const Endpoint& endpoint, const std::string& token,
                       int64_t frame_bytes_max, grpc::CompletionQueue* queue)
    : Call(id) {
  grpc::ChannelArguments arguments;
  for (const auto& [name, value] : ChannelSettings(frame_bytes_max)) arguments.SetInt(name, value);
  // A connection of its own: a channel that has just failed would wait before it tries again.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  stub_ = std::make_unique<grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer>>(
      grpc::CreateCustomChannel(endpoint.ToString(), grpc::InsecureChannelCredentials(),
                                arguments));
  if (!token.empty()) context_.AddMetadata(kTokenMetadata, token);
  // Servers are bound before anybody hears of them: one that cannot be reached is gone.
  context_.set_wait_for_ready(false);
  io_ = stub_->PrepareCall(&context_, kExchangeMethod, queue);
  io_->StartCall(start_tag());
}

void DialedCall::Stop() {
  Call::Stop();
  context_.TryCancel();
}

// What the other side says at the end has come as a frame; the rest is that it is gone.
void DialedCall::StartFinish() {
  context_.TryCancel();
  io_->Finish(&final_, finish_tag());
}

}  // namespace lockstep
