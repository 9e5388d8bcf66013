// Server reflection from the descriptors that are linked in.
#include <set>
#include <string>
#include <utility>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"

#include "proto/grpc/health/v1/health.pb.h"
#include "proto/grpc/reflection/v1/reflection.pb.h"
#include "proto/grpc/reflection/v1alpha/reflection.pb.h"
#include "proto/v3electionpb/v3election.pb.h"
#include "proto/v3lockpb/v3lock.pb.h"
#include "rpc/answer.h"
#include "rpc/health.h"

namespace mainstay::rpc {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;

// Keeps the descriptors of messages that nothing else uses in the program.
const DescriptorPool& Pool() {
  v3lockpb::LockRequest::descriptor();
  v3electionpb::LeaderRequest::descriptor();
  grpc::health::v1::HealthCheckRequest::descriptor();
  return *DescriptorPool::generated_pool();
}

template <class Request, class Response>
class Handler : public StreamHandler {
 public:
  explicit Handler(Call& call) : call_(call) {}

  void OnMessage(Buffer message) override {
    Request request;
    if (!request.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
      return FinishMalformed(call_.shared_from_this());
    }
    Response response;
    response.set_valid_host(request.host());
    *response.mutable_original_request() = request;
    Answer(request, &response);
    call_.Send(BufferChain(Buffer::Copy(response.SerializeAsString())));
  }
  void OnHalfClose() override { call_.Finish(GrpcStatus::Ok()); }

 private:
  void Answer(const Request& request, Response* response) {
    const DescriptorPool& pool = Pool();
    switch (request.message_request_case()) {
      case Request::kFileByFilename:
        return AddFile(pool.FindFileByName(request.file_by_filename()), request.file_by_filename(),
                       response);
      case Request::kFileContainingSymbol:
        return AddFile(pool.FindFileContainingSymbol(request.file_containing_symbol()),
                       request.file_containing_symbol(), response);
      case Request::kAllExtensionNumbersOfType:
        return AddExtensionNumbers(request.all_extension_numbers_of_type(), response);
      case Request::kListServices:
        return AddServices(response);
      default:
        return SetError(Code::kNotFound, "no such extension", response);
    }
  }
  void SetError(Code code, std::string text, Response* response) {
    response->mutable_error_response()->set_error_code(static_cast<int>(code));
    response->mutable_error_response()->set_error_message(std::move(text));
  }
  // The file and all that it imports, itself first.
  void AddFile(const FileDescriptor* file, const std::string& name, Response* response) {
    if (file == nullptr) {
      return SetError(Code::kNotFound, "not found: " + name, response);
    }
    std::set<const FileDescriptor*> seen;
    AddFileAndImports(file, &seen, response);
  }
  void AddFileAndImports(const FileDescriptor* file,
                         std::set<const FileDescriptor*>* seen,
                         Response* response) {
    if (!seen->insert(file).second) {
      return;
    }
    google::protobuf::FileDescriptorProto proto;
    file->CopyTo(&proto);
    response->mutable_file_descriptor_response()->add_file_descriptor_proto(
        proto.SerializeAsString());
    for (int i = 0; i < file->dependency_count(); ++i) {
      AddFileAndImports(file->dependency(i), seen, response);
    }
  }
  // None of our messages has extensions.
  void AddExtensionNumbers(const std::string& type, Response* response) {
    if (Pool().FindMessageTypeByName(type) == nullptr) {
      return SetError(Code::kNotFound, "not found: " + type, response);
    }
    response->mutable_all_extension_numbers_response()->set_base_type_name(type);
  }
  void AddServices(Response* response) {
    std::set<std::string_view> names;
    for (const Method& method : call_.loop().services().methods()) {
      names.insert(method.service);
    }
    auto* list = response->mutable_list_services_response();
    for (std::string_view name : names) {
      list->add_service()->set_name(std::string(name));
    }
  }

  Call& call_;
};

}  // namespace

std::unique_ptr<StreamHandler> ReflectionV1(const CallPtr& call) {
  return std::make_unique<Handler<grpc::reflection::v1::ServerReflectionRequest,
                                  grpc::reflection::v1::ServerReflectionResponse>>(*call);
}

std::unique_ptr<StreamHandler> ReflectionV1Alpha(const CallPtr& call) {
  return std::make_unique<Handler<grpc::reflection::v1alpha::ServerReflectionRequest,
                                  grpc::reflection::v1alpha::ServerReflectionResponse>>(*call);
}

}  // namespace mainstay::rpc
