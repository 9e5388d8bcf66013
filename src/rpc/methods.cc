// The table of all methods: what etcd 3.7.1 registers on its client port, and reflection.
//
// Sources  grpc-api 1.1.
#include "rpc/health.h"
#include "rpc/kv.h"
#include "rpc/lease.h"
#include "rpc/maintenance.h"
#include "rpc/method.h"
#include "rpc/watch.h"

namespace mainstay::rpc {
namespace {

constexpr MethodType kUnary = MethodType::kUnary;
constexpr MethodType kServerStream = MethodType::kServerStream;
constexpr MethodType kBidiStream = MethodType::kBidiStream;

constexpr std::string_view kKv = "etcdserverpb.KV";
constexpr std::string_view kWatch = "etcdserverpb.Watch";
constexpr std::string_view kLease = "etcdserverpb.Lease";
constexpr std::string_view kCluster = "etcdserverpb.Cluster";
constexpr std::string_view kMaintenance = "etcdserverpb.Maintenance";
constexpr std::string_view kAuth = "etcdserverpb.Auth";
constexpr std::string_view kLock = "v3lockpb.Lock";
constexpr std::string_view kElection = "v3electionpb.Election";
constexpr std::string_view kHealth = "grpc.health.v1.Health";

// "etcdserverpb.RangeRequest" and "etcdserverpb.RangeResponse" of "Range".
#define MS_TYPES(name) "etcdserverpb." name "Request", "etcdserverpb." name "Response"

void AddKv(std::vector<Method>* to) {
  to->push_back({kKv,
                 "Range",
                 kUnary,
                 MS_TYPES("Range"),
                 kv::Range,
                 nullptr,
                 {"/v3/kv/range"},
                 /*served_to_learner=*/true});
  to->push_back({kKv, "RangeStream", kServerStream, "etcdserverpb.RangeRequest",
                 "etcdserverpb.RangeStreamResponse", nullptr, kv::RangeStream});
  to->push_back({kKv, "Put", kUnary, MS_TYPES("Put"), kv::Put, nullptr, {"/v3/kv/put"}});
  to->push_back({kKv,
                 "DeleteRange",
                 kUnary,
                 MS_TYPES("DeleteRange"),
                 kv::DeleteRange,
                 nullptr,
                 {"/v3/kv/deleterange"}});
  to->push_back({kKv, "Txn", kUnary, MS_TYPES("Txn"), kv::Txn, nullptr, {"/v3/kv/txn"}});
  to->push_back({kKv,
                 "Compact",
                 kUnary,
                 MS_TYPES("Compaction"),
                 kv::Compact,
                 nullptr,
                 {"/v3/kv/compaction"}});
}

void AddWatchAndLease(std::vector<Method>* to) {
  to->push_back({kWatch, "Watch", kBidiStream, MS_TYPES("Watch"), nullptr, Watch, {"/v3/watch"}});
  to->push_back({kLease,
                 "LeaseGrant",
                 kUnary,
                 MS_TYPES("LeaseGrant"),
                 lease_service::Grant,
                 nullptr,
                 {"/v3/lease/grant"}});
  to->push_back({kLease,
                 "LeaseRevoke",
                 kUnary,
                 MS_TYPES("LeaseRevoke"),
                 lease_service::Revoke,
                 nullptr,
                 {"/v3/lease/revoke", "/v3/kv/lease/revoke"}});
  to->push_back({kLease,
                 "LeaseKeepAlive",
                 kBidiStream,
                 MS_TYPES("LeaseKeepAlive"),
                 nullptr,
                 lease_service::KeepAlive,
                 {"/v3/lease/keepalive"}});
  to->push_back({kLease,
                 "LeaseTimeToLive",
                 kUnary,
                 MS_TYPES("LeaseTimeToLive"),
                 lease_service::TimeToLive,
                 nullptr,
                 {"/v3/lease/timetolive", "/v3/kv/lease/timetolive"}});
  to->push_back({kLease,
                 "LeaseLeases",
                 kUnary,
                 MS_TYPES("LeaseLeases"),
                 lease_service::Leases,
                 nullptr,
                 {"/v3/lease/leases", "/v3/kv/lease/leases"}});
}

void AddCluster(std::vector<Method>* to) {
  const auto add = [to](std::string_view name, std::string_view request, std::string_view response,
                        UnaryFn fn, std::string_view route) {
    to->push_back({kCluster, name, kUnary, request, response, fn, nullptr, {route}});
  };
  add("MemberAdd", MS_TYPES("MemberAdd"), nullptr, "/v3/cluster/member/add");
  add("MemberRemove", MS_TYPES("MemberRemove"), nullptr, "/v3/cluster/member/remove");
  add("MemberUpdate", MS_TYPES("MemberUpdate"), nullptr, "/v3/cluster/member/update");
  add("MemberList", MS_TYPES("MemberList"), maintenance::MemberList, "/v3/cluster/member/list");
  add("MemberPromote", MS_TYPES("MemberPromote"), nullptr, "/v3/cluster/member/promote");
}

void AddMaintenance(std::vector<Method>* to) {
  namespace m = maintenance;
  to->push_back({kMaintenance,
                 "Alarm",
                 kUnary,
                 MS_TYPES("Alarm"),
                 m::Alarm,
                 nullptr,
                 {"/v3/maintenance/alarm"}});
  to->push_back({kMaintenance,
                 "Status",
                 kUnary,
                 MS_TYPES("Status"),
                 m::Status,
                 nullptr,
                 {"/v3/maintenance/status"},
                 /*served_to_learner=*/true});
  to->push_back({kMaintenance,
                 "Defragment",
                 kUnary,
                 MS_TYPES("Defragment"),
                 m::Defragment,
                 nullptr,
                 {"/v3/maintenance/defragment"}});
  to->push_back(
      {kMaintenance, "Hash", kUnary, MS_TYPES("Hash"), m::Hash, nullptr, {"/v3/maintenance/hash"}});
  to->push_back({kMaintenance,
                 "HashKV",
                 kUnary,
                 MS_TYPES("HashKV"),
                 m::HashKv,
                 nullptr,
                 {"/v3/maintenance/hashkv"}});
  to->push_back({kMaintenance,
                 "Snapshot",
                 kServerStream,
                 MS_TYPES("Snapshot"),
                 nullptr,
                 m::Snapshot,
                 {"/v3/maintenance/snapshot"},
                 /*served_to_learner=*/true});
  to->push_back({kMaintenance,
                 "MoveLeader",
                 kUnary,
                 MS_TYPES("MoveLeader"),
                 m::MoveLeader,
                 nullptr,
                 {"/v3/maintenance/transfer-leadership"}});
  to->push_back({kMaintenance,
                 "Downgrade",
                 kUnary,
                 MS_TYPES("Downgrade"),
                 m::Downgrade,
                 nullptr,
                 {"/v3/maintenance/downgrade"}});
}

void AddAuth(std::vector<Method>* to) {
  const auto add = [to](std::string_view name, std::string_view request, std::string_view response,
                        std::string_view route, UnaryFn fn = nullptr) {
    to->push_back({kAuth, name, kUnary, request, response, fn, nullptr, {route}});
  };
  add("AuthEnable", MS_TYPES("AuthEnable"), "/v3/auth/enable");
  add("AuthDisable", MS_TYPES("AuthDisable"), "/v3/auth/disable");
  add("AuthStatus", MS_TYPES("AuthStatus"), "/v3/auth/status", maintenance::AuthStatus);
  add("Authenticate", MS_TYPES("Authenticate"), "/v3/auth/authenticate", maintenance::Authenticate);
  add("UserAdd", MS_TYPES("AuthUserAdd"), "/v3/auth/user/add");
  add("UserGet", MS_TYPES("AuthUserGet"), "/v3/auth/user/get");
  add("UserList", MS_TYPES("AuthUserList"), "/v3/auth/user/list");
  add("UserDelete", MS_TYPES("AuthUserDelete"), "/v3/auth/user/delete");
  add("UserChangePassword", MS_TYPES("AuthUserChangePassword"), "/v3/auth/user/changepw");
  add("UserGrantRole", MS_TYPES("AuthUserGrantRole"), "/v3/auth/user/grant");
  add("UserRevokeRole", MS_TYPES("AuthUserRevokeRole"), "/v3/auth/user/revoke");
  add("RoleAdd", MS_TYPES("AuthRoleAdd"), "/v3/auth/role/add");
  add("RoleGet", MS_TYPES("AuthRoleGet"), "/v3/auth/role/get");
  add("RoleList", MS_TYPES("AuthRoleList"), "/v3/auth/role/list");
  add("RoleDelete", MS_TYPES("AuthRoleDelete"), "/v3/auth/role/delete");
  add("RoleGrantPermission", MS_TYPES("AuthRoleGrantPermission"), "/v3/auth/role/grant");
  add("RoleRevokePermission", MS_TYPES("AuthRoleRevokePermission"), "/v3/auth/role/revoke");
}

void AddLockAndElection(std::vector<Method>* to) {
  const auto add = [to](std::string_view service, std::string_view name, MethodType type,
                        std::string_view request, std::string_view response,
                        std::string_view route) {
    Method method{service, name, type, request, response, nullptr, nullptr, {route}};
    method.metrics_on_use = true;
    to->push_back(std::move(method));
  };
  add(kLock, "Lock", kUnary, "v3lockpb.LockRequest", "v3lockpb.LockResponse", "/v3/lock/lock");
  add(kLock, "Unlock", kUnary, "v3lockpb.UnlockRequest", "v3lockpb.UnlockResponse",
      "/v3/lock/unlock");
  add(kElection, "Campaign", kUnary, "v3electionpb.CampaignRequest",
      "v3electionpb.CampaignResponse", "/v3/election/campaign");
  add(kElection, "Proclaim", kUnary, "v3electionpb.ProclaimRequest",
      "v3electionpb.ProclaimResponse", "/v3/election/proclaim");
  add(kElection, "Leader", kUnary, "v3electionpb.LeaderRequest", "v3electionpb.LeaderResponse",
      "/v3/election/leader");
  add(kElection, "Observe", kServerStream, "v3electionpb.LeaderRequest",
      "v3electionpb.LeaderResponse", "/v3/election/observe");
  add(kElection, "Resign", kUnary, "v3electionpb.ResignRequest", "v3electionpb.ResignResponse",
      "/v3/election/resign");
}

void AddStandardServices(std::vector<Method>* to) {
  constexpr std::string_view kCheckRequest = "grpc.health.v1.HealthCheckRequest";
  constexpr std::string_view kCheckResponse = "grpc.health.v1.HealthCheckResponse";
  to->push_back({kHealth, "Check", kUnary, kCheckRequest, kCheckResponse, HealthCheck});
  to->push_back(
      {kHealth, "Watch", kServerStream, kCheckRequest, kCheckResponse, nullptr, HealthWatch});
  to->push_back({kHealth, "List", kUnary, "grpc.health.v1.HealthListRequest",
                 "grpc.health.v1.HealthListResponse", HealthList});
  const auto reflection = [to](std::string_view service, std::string_view request,
                               std::string_view response, StreamFn fn) {
    Method method{service, "ServerReflectionInfo", kBidiStream, request, response, nullptr, fn};
    method.metrics_on_use = true;  // etcd's page does not know it
    to->push_back(std::move(method));
  };
  reflection("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1.ServerReflectionRequest",
             "grpc.reflection.v1.ServerReflectionResponse", ReflectionV1);
  reflection("grpc.reflection.v1alpha.ServerReflection",
             "grpc.reflection.v1alpha.ServerReflectionRequest",
             "grpc.reflection.v1alpha.ServerReflectionResponse", ReflectionV1Alpha);
}

#undef MS_TYPES

}  // namespace

std::vector<Method> AllMethods() {
  std::vector<Method> methods;
  AddKv(&methods);
  AddWatchAndLease(&methods);
  AddCluster(&methods);
  AddAuth(&methods);
  AddMaintenance(&methods);
  AddStandardServices(&methods);
  AddLockAndElection(&methods);
  return methods;
}

}  // namespace mainstay::rpc
