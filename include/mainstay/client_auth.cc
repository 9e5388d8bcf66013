#include <grpcpp/grpcpp.h>

#include "mainstay/client.h"
#include "mainstay/internal/transport.h"
#include "proto/etcdserverpb/rpc.grpc.pb.h"

namespace mainstay::client {
namespace {

template <class Request, class Response>
using Method = grpc::Status (pb::Auth::Stub::*)(grpc::ClientContext*, const Request&, Response*);

template <class Request, class Response>
absl::StatusOr<Response> Run(Transport& transport,
                             bool is_read,
                             const CallOptions& call,
                             const Request& request,
                             Method<Request, Response> method) {
  Response response;
  const absl::Status status = transport.Unary(
      is_read, call,
      [&](const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext& context) {
        auto stub = pb::Auth::NewStub(channel);
        return (*stub.*method)(&context, request, &response);
      });
  if (!status.ok()) {
    return status;
  }
  return response;
}

std::string Str(std::string_view s) {
  return std::string(s);
}

}  // namespace

absl::StatusOr<pb::AuthEnableResponse> Client::AuthEnable(CallOptions call) {
  return Run(*transport_, false, call, pb::AuthEnableRequest(), &pb::Auth::Stub::AuthEnable);
}

absl::StatusOr<pb::AuthDisableResponse> Client::AuthDisable(CallOptions call) {
  return Run(*transport_, false, call, pb::AuthDisableRequest(), &pb::Auth::Stub::AuthDisable);
}

absl::StatusOr<pb::AuthStatusResponse> Client::AuthStatus(CallOptions call) {
  return Run(*transport_, true, call, pb::AuthStatusRequest(), &pb::Auth::Stub::AuthStatus);
}

absl::StatusOr<pb::AuthUserAddResponse> Client::UserAdd(const pb::AuthUserAddRequest& request,
                                                        CallOptions call) {
  return Run(*transport_, false, call, request, &pb::Auth::Stub::UserAdd);
}

absl::StatusOr<pb::AuthUserGetResponse> Client::UserGet(std::string_view name, CallOptions call) {
  pb::AuthUserGetRequest request;
  request.set_name(Str(name));
  return Run(*transport_, true, call, request, &pb::Auth::Stub::UserGet);
}

absl::StatusOr<pb::AuthUserListResponse> Client::UserList(CallOptions call) {
  return Run(*transport_, true, call, pb::AuthUserListRequest(), &pb::Auth::Stub::UserList);
}

absl::StatusOr<pb::AuthUserDeleteResponse> Client::UserDelete(std::string_view name,
                                                              CallOptions call) {
  pb::AuthUserDeleteRequest request;
  request.set_name(Str(name));
  return Run(*transport_, false, call, request, &pb::Auth::Stub::UserDelete);
}

absl::StatusOr<pb::AuthUserChangePasswordResponse> Client::UserChangePassword(
    std::string_view name, std::string_view password, CallOptions call) {
  pb::AuthUserChangePasswordRequest request;
  request.set_name(Str(name));
  request.set_password(Str(password));
  return Run(*transport_, false, call, request, &pb::Auth::Stub::UserChangePassword);
}

absl::StatusOr<pb::AuthUserGrantRoleResponse> Client::UserGrantRole(std::string_view user,
                                                                    std::string_view role,
                                                                    CallOptions call) {
  pb::AuthUserGrantRoleRequest request;
  request.set_user(Str(user));
  request.set_role(Str(role));
  return Run(*transport_, false, call, request, &pb::Auth::Stub::UserGrantRole);
}

absl::StatusOr<pb::AuthUserRevokeRoleResponse> Client::UserRevokeRole(std::string_view user,
                                                                      std::string_view role,
                                                                      CallOptions call) {
  pb::AuthUserRevokeRoleRequest request;
  request.set_name(Str(user));
  request.set_role(Str(role));
  return Run(*transport_, false, call, request, &pb::Auth::Stub::UserRevokeRole);
}

absl::StatusOr<pb::AuthRoleAddResponse> Client::RoleAdd(std::string_view role, CallOptions call) {
  pb::AuthRoleAddRequest request;
  request.set_name(Str(role));
  return Run(*transport_, false, call, request, &pb::Auth::Stub::RoleAdd);
}

absl::StatusOr<pb::AuthRoleGetResponse> Client::RoleGet(std::string_view role, CallOptions call) {
  pb::AuthRoleGetRequest request;
  request.set_role(Str(role));
  return Run(*transport_, true, call, request, &pb::Auth::Stub::RoleGet);
}

absl::StatusOr<pb::AuthRoleListResponse> Client::RoleList(CallOptions call) {
  return Run(*transport_, true, call, pb::AuthRoleListRequest(), &pb::Auth::Stub::RoleList);
}

absl::StatusOr<pb::AuthRoleDeleteResponse> Client::RoleDelete(std::string_view role,
                                                              CallOptions call) {
  pb::AuthRoleDeleteRequest request;
  request.set_role(Str(role));
  return Run(*transport_, false, call, request, &pb::Auth::Stub::RoleDelete);
}

absl::StatusOr<pb::AuthRoleGrantPermissionResponse> Client::RoleGrantPermission(
    const pb::AuthRoleGrantPermissionRequest& request, CallOptions call) {
  return Run(*transport_, false, call, request, &pb::Auth::Stub::RoleGrantPermission);
}

absl::StatusOr<pb::AuthRoleRevokePermissionResponse> Client::RoleRevokePermission(
    const pb::AuthRoleRevokePermissionRequest& request, CallOptions call) {
  return Run(*transport_, false, call, request, &pb::Auth::Stub::RoleRevokePermission);
}

}  // namespace mainstay::client
