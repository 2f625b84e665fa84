// call.h: one gRPC stream of a server, whoever opened it: what is queued for it, what is being
// written and read. No policy: PsService polls the completion queue and hands events over.
// At any time one read is outstanding, and one write where there is something to send; a chunk's
// bytes stay where they are, and their owner with them until gRPC lets go. Threads: one.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "base/socket.h"
#include "proto/parameter_server.grpc.pb.h"
#include "ps_server/service/payload.h"

namespace lockstep {

class Call {
 public:
  enum class Op : uint8_t { kStart, kRead, kWrite, kFinish };
  struct Tag {
    Call* call;
    Op op;
  };
  // Told of each frame that is handed to gRPC.
  struct Frame {
    PsFrame header;
    int64_t bytes = 0;
    bool complete = false;  // the last one of its message
  };

  explicit Call(int64_t id) : id_(id) {}
  virtual ~Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  int64_t id() const { return id_; }
  Tag* start_tag() { return &start_; }

  void Queue(Outgoing message) { queue_.push_back(std::move(message)); }
  // Hands the next frame to gRPC, if it can take one: in_flight(); null: nothing was handed over.
  const Frame* WriteNext(int64_t chunk_bytes);
  // An operation is over. kStart: it stands, if `ok`, and reads. kRead: `ok` says whether a message
  // is there.
  void OnDone(Op op, bool ok);
  // The message that was read; the next one is asked for by ReadNext.
  const grpc::ByteBuffer& incoming() const { return incoming_; }
  void ReadNext();
  // Ends it once its last message is written, or the other side is gone.
  void FinishIfDone();
  // No operation starts any more.
  virtual void Stop() { stopped_ = true; }

  const Frame& in_flight() const { return in_flight_; }
  bool broken() const { return broken_; }
  // Nothing is pending and nothing will be: it may be deleted.
  bool over() const { return !reading_ && !writing_ && !finishing_ && (finished_ || stopped_); }

 protected:
  Tag* read_tag() { return &read_; }
  Tag* write_tag() { return &write_; }
  Tag* finish_tag() { return &finish_; }

 private:
  virtual void StartRead(grpc::ByteBuffer* buffer) = 0;
  virtual void StartWrite(const grpc::ByteBuffer& buffer) = 0;
  virtual void StartFinish() = 0;

  const int64_t id_;
  Tag start_{this, Op::kStart};
  Tag read_{this, Op::kRead};
  Tag write_{this, Op::kWrite};
  Tag finish_{this, Op::kFinish};
  grpc::ByteBuffer incoming_;
  std::deque<Outgoing> queue_;
  int64_t sent_bytes_ = 0;  // of queue_.front().payload
  Frame in_flight_;
  bool begun_ = false;
  bool reading_ = false;
  bool writing_ = false;
  bool last_written_ = false;  // nothing follows
  bool silenced_ = false;      // a write failed; why, comes with the read that is outstanding
  bool broken_ = false;        // the other side is gone or done
  bool finishing_ = false;
  bool finished_ = false;
  bool stopped_ = false;
};

// A worker's, or a predecessor's.
class AcceptedCall final : public Call {
 public:
  using Service = ParameterServer::WithRawMethod_Exchange<ParameterServer::Service>;
  // Waits for one to come; kStart says that it has.
  AcceptedCall(int64_t id, Service* service, grpc::ServerCompletionQueue* queue);
  // That it was opened with; empty: none.
  std::string token() const;

 private:
  void StartRead(grpc::ByteBuffer* buffer) override { io_.Read(buffer, read_tag()); }
  void StartWrite(const grpc::ByteBuffer& buffer) override { io_.Write(buffer, write_tag()); }
  void StartFinish() override { io_.Finish(grpc::Status::OK, finish_tag()); }

  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> io_{&context_};
};

// To a successor. Cancelled where it ends.
class DialedCall final : public Call {
 public:
  DialedCall(int64_t id, const Endpoint& endpoint, const std::string& token,
             int64_t frame_bytes_max, grpc::CompletionQueue* queue);
  void Stop() override;

 private:
  void StartRead(grpc::ByteBuffer* buffer) override { io_->Read(buffer, read_tag()); }
  void StartWrite(const grpc::ByteBuffer& buffer) override { io_->Write(buffer, write_tag()); }
  void StartFinish() override;

  std::unique_ptr<grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer>> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> io_;
  grpc::Status final_;
};

}  // namespace lockstep
