// mainstay::client::Client: a client of a Mainstay or etcd cluster.
//
// Role        What applications, mainstayctl and the integration tests use. Requests and responses
// are
//             the API's own protobuf messages (package etcdserverpb); the short forms below need
//             none.
// Threads     Every method may be called from any thread, at once. Calls block until answered,
// failed
//             or timed out. A Watch and a LeaseKeeper run one thread each.
// Ownership   A Client owns its connections. Watches and LeaseKeepers share them, so they may
//             outlive the Client.
// Errors      absl::Status whose code is the gRPC code and whose message is the server's text, for
//             example OutOfRange "etcdserver: mvcc: required revision has been compacted". Throws
//             nothing.
// Retries     Reads are sent again, to the next endpoint, when the answer is Unavailable. Writes
// are sent
//             again only if they were never sent: after they may have reached a server the error is
//             returned, and the write may have happened. An expired auth token is renewed once a
//             call.
// Limits      One connection an endpoint. Queues of undelivered events are bounded (WatchOptions).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "mainstay/lease_keeper.h"
#include "mainstay/watch.h"
#include "proto/etcdserverpb/rpc.pb.h"

namespace mainstay::client {

namespace pb = ::etcdserverpb;

// How to secure connections. Endpoints with http:// are always plaintext, https:// always TLS, and
// those without a scheme are TLS when `enabled`.
struct TlsOptions {
  bool enabled = false;
  std::string ca_file;    // empty: the system's roots
  std::string cert_file;  // with key_file: our own identity
  std::string key_file;
  std::string server_name;   // empty: the endpoint's host
  bool skip_verify = false;  // for tests only
};

struct Options {
  // "host:port", "http://…", "https://…", "unix://…" or "unixs://…". Calls start at the next one in
  // turn.
  std::vector<std::string> endpoints{"127.0.0.1:2379"};
  TlsOptions tls;
  std::string user;
  std::string password;
  std::string token;  // a ready token (JWT); user and password are then not used
  // Bounds a call that sets no timeout of its own; zero: no bound.
  std::chrono::nanoseconds command_timeout{};
  // Pings of an idle connection with calls open; below 10 s counts as 10 s, since servers cut
  // connections that ping oftener.
  std::chrono::nanoseconds keepalive_time{std::chrono::seconds(30)};
  std::chrono::nanoseconds keepalive_timeout{std::chrono::seconds(10)};
  int send_bytes_max = 2 << 20;
  int receive_bytes_max = INT32_MAX;
};

struct CallOptions {
  std::optional<std::chrono::nanoseconds>
      timeout;  // of the whole call, retries included; zero: none
};

// The first key after all keys that start with `prefix`; "\0" (= no end) if there is none.
std::string PrefixEnd(std::string_view prefix);

// What a Snapshot call reports beside the bytes.
struct SnapshotInfo {
  std::string version;  // the server's storage version; may be empty
  uint64_t bytes = 0;   // received, trailer included
};

class Client {
 public:
  // Reads certificate files and, if a user is given, logs in (waiting up to `dial_timeout`). Does
  // not wait for a connection otherwise.
  static absl::StatusOr<std::unique_ptr<Client>> Create(
      Options options, std::chrono::nanoseconds dial_timeout = std::chrono::seconds(5));
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const std::vector<std::string>& endpoints() const;

  // Short forms. Get: the value, or nullopt if there is no such key. Delete: how many keys went.
  absl::StatusOr<std::optional<std::string>> Get(std::string_view key);
  absl::Status Put(std::string_view key, std::string_view value, int64_t lease = 0);
  absl::StatusOr<int64_t> Delete(std::string_view key, std::string_view range_end = {});

  // KV.
  absl::StatusOr<pb::RangeResponse> Range(const pb::RangeRequest& request, CallOptions = {});
  // The same answer, received in chunks; servers before 3.7 answer Unimplemented.
  absl::StatusOr<pb::RangeResponse> RangeStream(const pb::RangeRequest& request, CallOptions = {});
  absl::StatusOr<pb::PutResponse> Put(const pb::PutRequest& request, CallOptions = {});
  absl::StatusOr<pb::DeleteRangeResponse> DeleteRange(const pb::DeleteRangeRequest& request,
                                                      CallOptions = {});
  absl::StatusOr<pb::TxnResponse> Txn(const pb::TxnRequest& request, CallOptions = {});
  absl::StatusOr<pb::CompactionResponse> Compact(const pb::CompactionRequest& request,
                                                 CallOptions = {});

  // Starts a watch; see watch.h. Never fails: what goes wrong is the watch's first answer.
  std::unique_ptr<Watch> StartWatch(WatchOptions options);

  // Leases.
  absl::StatusOr<pb::LeaseGrantResponse> LeaseGrant(int64_t ttl_s,
                                                    int64_t id = 0,
                                                    CallOptions = {});
  absl::StatusOr<pb::LeaseRevokeResponse> LeaseRevoke(int64_t id, CallOptions = {});
  absl::StatusOr<pb::LeaseTimeToLiveResponse> LeaseTimeToLive(int64_t id,
                                                              bool keys,
                                                              CallOptions = {});
  absl::StatusOr<pb::LeaseLeasesResponse> LeaseList(CallOptions = {});
  // One renewal. NotFound "etcdserver: requested lease not found" if it is gone.
  absl::StatusOr<pb::LeaseKeepAliveResponse> LeaseKeepAliveOnce(int64_t id, CallOptions = {});
  // Renews until the lease is gone or the keeper is destroyed; see lease_keeper.h.
  std::unique_ptr<LeaseKeeper> KeepAlive(int64_t id);

  // Cluster.
  absl::StatusOr<pb::MemberListResponse> MemberList(bool linearizable = true, CallOptions = {});
  absl::StatusOr<pb::MemberAddResponse> MemberAdd(const std::vector<std::string>& peer_urls,
                                                  bool learner,
                                                  CallOptions = {});
  absl::StatusOr<pb::MemberRemoveResponse> MemberRemove(uint64_t id, CallOptions = {});
  absl::StatusOr<pb::MemberUpdateResponse> MemberUpdate(uint64_t id,
                                                        const std::vector<std::string>& peer_urls,
                                                        CallOptions = {});
  absl::StatusOr<pb::MemberPromoteResponse> MemberPromote(uint64_t id, CallOptions = {});

  // Maintenance. These answer for the one member that is asked: give the Client one endpoint.
  absl::StatusOr<pb::StatusResponse> Status(CallOptions = {});
  absl::StatusOr<pb::AlarmResponse> Alarm(const pb::AlarmRequest& request, CallOptions = {});
  absl::StatusOr<pb::DefragmentResponse> Defragment(CallOptions = {});
  absl::StatusOr<pb::HashKVResponse> HashKv(int64_t revision, CallOptions = {});
  absl::StatusOr<pb::MoveLeaderResponse> MoveLeader(uint64_t target, CallOptions = {});
  absl::StatusOr<pb::DowngradeResponse> Downgrade(const pb::DowngradeRequest& request,
                                                  CallOptions = {});
  // Hands each chunk, in order, to `sink`; a status that is not ok from it ends the call with that
  // status.
  absl::StatusOr<SnapshotInfo> Snapshot(const std::function<absl::Status(std::string_view)>& sink,
                                        CallOptions = {});

  // Auth.
  absl::StatusOr<pb::AuthEnableResponse> AuthEnable(CallOptions = {});
  absl::StatusOr<pb::AuthDisableResponse> AuthDisable(CallOptions = {});
  absl::StatusOr<pb::AuthStatusResponse> AuthStatus(CallOptions = {});
  absl::StatusOr<pb::AuthUserAddResponse> UserAdd(const pb::AuthUserAddRequest&, CallOptions = {});
  absl::StatusOr<pb::AuthUserGetResponse> UserGet(std::string_view name, CallOptions = {});
  absl::StatusOr<pb::AuthUserListResponse> UserList(CallOptions = {});
  absl::StatusOr<pb::AuthUserDeleteResponse> UserDelete(std::string_view name, CallOptions = {});
  absl::StatusOr<pb::AuthUserChangePasswordResponse> UserChangePassword(std::string_view name,
                                                                        std::string_view password,
                                                                        CallOptions = {});
  absl::StatusOr<pb::AuthUserGrantRoleResponse> UserGrantRole(std::string_view user,
                                                              std::string_view role,
                                                              CallOptions = {});
  absl::StatusOr<pb::AuthUserRevokeRoleResponse> UserRevokeRole(std::string_view user,
                                                                std::string_view role,
                                                                CallOptions = {});
  absl::StatusOr<pb::AuthRoleAddResponse> RoleAdd(std::string_view role, CallOptions = {});
  absl::StatusOr<pb::AuthRoleGetResponse> RoleGet(std::string_view role, CallOptions = {});
  absl::StatusOr<pb::AuthRoleListResponse> RoleList(CallOptions = {});
  absl::StatusOr<pb::AuthRoleDeleteResponse> RoleDelete(std::string_view role, CallOptions = {});
  absl::StatusOr<pb::AuthRoleGrantPermissionResponse> RoleGrantPermission(
      const pb::AuthRoleGrantPermissionRequest& request, CallOptions = {});
  absl::StatusOr<pb::AuthRoleRevokePermissionResponse> RoleRevokePermission(
      const pb::AuthRoleRevokePermissionRequest& request, CallOptions = {});

 private:
  friend class Watch;
  friend class LeaseKeeper;
  explicit Client(std::shared_ptr<Transport> transport);
  std::shared_ptr<Transport> transport_;
};

}  // namespace mainstay::client
