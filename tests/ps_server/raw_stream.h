// raw_stream.h: a gRPC call that speaks whatever bytes it likes, for tests. One thread.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "base/socket.h"
#include "ps_server/wire/grpc_frame.h"

namespace lockstep {

// A stream that speaks whatever bytes it likes.
class RawStream {
 public:
  explicit RawStream(const Endpoint& endpoint, const std::string& method = kExchangeMethod,
                     int deadline_s = 10)
      : stub_(grpc::CreateChannel(endpoint.ToString(), grpc::InsecureChannelCredentials())) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(deadline_s));
    io_ = stub_.PrepareCall(&context_, method, &queue_);
    io_->StartCall(this);
    Next();
  }
  ~RawStream() {
    context_.TryCancel();
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }
  bool Write(const std::string& bytes) {
    const grpc::Slice slice(bytes);
    io_->Write(grpc::ByteBuffer(&slice, 1), this);
    return Next();
  }
  // Empty at the stream's end.
  std::string Read() {
    grpc::ByteBuffer buffer;
    io_->Read(&buffer, this);
    if (!Next()) return "";
    grpc::Slice slice;
    EXPECT_TRUE(buffer.DumpToSingleSlice(&slice).ok());
    return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
  }
  grpc::Status Finish() {
    grpc::Status status;
    io_->Finish(&status, this);
    Next();
    return status;
  }

 private:
  bool Next() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> io_;
};

}  // namespace lockstep
