#include "ps_server/service/onlooker_answers.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/support/status_code_enum.h>

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "proto/health.pb.h"
#include "proto/parameter_server.pb.h"
#include "proto/reflection.pb.h"

namespace lockstep {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using grpc::reflection::v1alpha::ErrorResponse;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

constexpr std::array<const char*, 3> kServices = {"lockstep.ParameterServer",
                                                  "grpc.health.v1.Health",
                                                  "grpc.reflection.v1alpha.ServerReflection"};

// Files of these alone are shown: whatever else is linked in is nobody's business.
bool IsShown(const FileDescriptor* file) {
  const std::array<const FileDescriptor*, 3> shown = {
      PsFrame::descriptor()->file(), HealthCheckRequest::descriptor()->file(),
      ServerReflectionRequest::descriptor()->file()};
  return std::find(shown.begin(), shown.end(), file) != shown.end();
}

absl::StatusOr<std::string> Health(const std::string& request_bytes) {
  HealthCheckRequest request;
  if (!request.ParseFromString(request_bytes)) {
    return absl::InvalidArgumentError("not a HealthCheckRequest");
  }
  const bool served = request.service().empty() || std::find(kServices.begin(), kServices.end(),
                                                             request.service()) != kServices.end();
  if (!served) {
    return absl::NotFoundError(absl::StrCat("service '", request.service(), "' is not served"));
  }
  HealthCheckResponse response;
  response.set_status(HealthCheckResponse::SERVING);
  return response.SerializeAsString();
}

void ShowFile(const FileDescriptor* file, const std::string& wanted,
              ServerReflectionResponse* response) {
  if (file == nullptr || !IsShown(file)) {
    ErrorResponse* error = response->mutable_error_response();
    error->set_error_code(grpc::StatusCode::NOT_FOUND);
    error->set_error_message(absl::StrCat("'", wanted, "' is not known here"));
    return;
  }
  google::protobuf::FileDescriptorProto proto;
  file->CopyTo(&proto);
  response->mutable_file_descriptor_response()->add_file_descriptor_proto(
      proto.SerializeAsString());
}

absl::StatusOr<std::string> Reflect(const std::string& request_bytes) {
  ServerReflectionResponse response;
  ServerReflectionRequest* request = response.mutable_original_request();
  if (!request->ParseFromString(request_bytes)) {
    return absl::InvalidArgumentError("not a ServerReflectionRequest");
  }
  response.set_valid_host(request->host());
  const DescriptorPool* pool = DescriptorPool::generated_pool();
  switch (request->message_request_case()) {
    case ServerReflectionRequest::kListServices:
      for (const char* name : kServices) {
        response.mutable_list_services_response()->add_service()->set_name(name);
      }
      break;
    case ServerReflectionRequest::kFileByFilename:
      ShowFile(pool->FindFileByName(request->file_by_filename()), request->file_by_filename(),
               &response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      ShowFile(pool->FindFileContainingSymbol(request->file_containing_symbol()),
               request->file_containing_symbol(), &response);
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      response.mutable_error_response()->set_error_code(grpc::StatusCode::UNIMPLEMENTED);
      response.mutable_error_response()->set_error_message("extensions are not served");
      break;
  }
  return response.SerializeAsString();
}

}  // namespace

absl::StatusOr<std::string> AnswerOnlooker(absl::string_view method, const std::string& request) {
  if (method == kHealthMethod) return Health(request);
  if (method == kReflectionMethod) return Reflect(request);
  return absl::UnimplementedError(absl::StrCat("no method ", method));
}

}  // namespace lockstep
