#include "mainstay/client.h"

#include <utility>

#include "mainstay/internal/transport.h"
#include "proto/etcdserverpb/rpc.grpc.pb.h"

namespace mainstay::client {
namespace {

enum class Kind { kRead, kWrite };

// Runs `method` of `Service`'s stub with `request`.
template <class Service, class Request, class Response, class Stub>
absl::StatusOr<Response> Run(Transport& transport,
                             Kind kind,
                             const CallOptions& call,
                             const Request& request,
                             grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                          const Request&,
                                                          Response*)) {
  Response response;
  const absl::Status status = transport.Unary(
      kind == Kind::kRead, call,
      [&](const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext& context) {
        auto stub = Service::NewStub(channel);
        return (*stub.*method)(&context, request, &response);
      });
  if (!status.ok()) {
    return status;
  }
  return response;
}

pb::LeaseKeepAliveRequest KeepAliveRequest(int64_t id) {
  pb::LeaseKeepAliveRequest request;
  request.set_id(id);
  return request;
}

}  // namespace

std::string PrefixEnd(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && static_cast<unsigned char>(end.back()) == 0xff) {
    end.pop_back();
  }
  if (end.empty()) {
    return std::string(1, '\0');
  }
  end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

absl::StatusOr<std::unique_ptr<Client>> Client::Create(Options options,
                                                       std::chrono::nanoseconds dial_timeout) {
  absl::StatusOr<std::shared_ptr<Transport>> transport = Transport::Create(std::move(options));
  if (!transport.ok()) {
    return transport.status();
  }
  const absl::Status login =
      (*transport)->Login((*transport)->Deadline(CallOptions{.timeout = dial_timeout}));
  if (!login.ok()) {
    return login;
  }
  return std::unique_ptr<Client>(new Client(std::move(*transport)));
}

Client::Client(std::shared_ptr<Transport> transport) : transport_(std::move(transport)) {}
Client::~Client() = default;

const std::vector<std::string>& Client::endpoints() const {
  return transport_->options().endpoints;
}

absl::StatusOr<std::optional<std::string>> Client::Get(std::string_view key) {
  pb::RangeRequest request;
  request.set_key(key.data(), key.size());
  absl::StatusOr<pb::RangeResponse> response = Range(request);
  if (!response.ok()) {
    return response.status();
  }
  if (response->kvs().empty()) {
    return std::optional<std::string>();
  }
  return std::optional<std::string>(response->kvs(0).value());
}

absl::Status Client::Put(std::string_view key, std::string_view value, int64_t lease) {
  pb::PutRequest request;
  request.set_key(key.data(), key.size());
  request.set_value(value.data(), value.size());
  request.set_lease(lease);
  return Put(request).status();
}

absl::StatusOr<int64_t> Client::Delete(std::string_view key, std::string_view range_end) {
  pb::DeleteRangeRequest request;
  request.set_key(key.data(), key.size());
  request.set_range_end(range_end.data(), range_end.size());
  absl::StatusOr<pb::DeleteRangeResponse> response = DeleteRange(request);
  if (!response.ok()) {
    return response.status();
  }
  return response->deleted();
}

absl::StatusOr<pb::RangeResponse> Client::Range(const pb::RangeRequest& request, CallOptions call) {
  return Run<pb::KV>(*transport_, Kind::kRead, call, request, &pb::KV::Stub::Range);
}

absl::StatusOr<pb::RangeResponse> Client::RangeStream(const pb::RangeRequest& request,
                                                      CallOptions call) {
  pb::RangeResponse all;
  const absl::Status status = transport_->Unary(
      true, call, [&](const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext& context) {
        all.Clear();
        auto stub = pb::KV::NewStub(channel);
        auto reader = stub->RangeStream(&context, request);
        pb::RangeStreamResponse part;
        while (reader->Read(&part)) {
          all.MergeFrom(part.range_response());
        }
        return reader->Finish();
      });
  if (!status.ok()) {
    return status;
  }
  return all;
}

absl::StatusOr<pb::PutResponse> Client::Put(const pb::PutRequest& request, CallOptions call) {
  return Run<pb::KV>(*transport_, Kind::kWrite, call, request, &pb::KV::Stub::Put);
}

absl::StatusOr<pb::DeleteRangeResponse> Client::DeleteRange(const pb::DeleteRangeRequest& request,
                                                            CallOptions call) {
  return Run<pb::KV>(*transport_, Kind::kWrite, call, request, &pb::KV::Stub::DeleteRange);
}

absl::StatusOr<pb::TxnResponse> Client::Txn(const pb::TxnRequest& request, CallOptions call) {
  return Run<pb::KV>(*transport_, Kind::kWrite, call, request, &pb::KV::Stub::Txn);
}

absl::StatusOr<pb::CompactionResponse> Client::Compact(const pb::CompactionRequest& request,
                                                       CallOptions call) {
  return Run<pb::KV>(*transport_, Kind::kWrite, call, request, &pb::KV::Stub::Compact);
}

std::unique_ptr<Watch> Client::StartWatch(WatchOptions options) {
  return std::make_unique<Watch>(transport_, std::move(options));
}

absl::StatusOr<pb::LeaseGrantResponse> Client::LeaseGrant(int64_t ttl_s,
                                                          int64_t id,
                                                          CallOptions call) {
  pb::LeaseGrantRequest request;
  request.set_ttl(ttl_s);
  request.set_id(id);
  return Run<pb::Lease>(*transport_, Kind::kWrite, call, request, &pb::Lease::Stub::LeaseGrant);
}

absl::StatusOr<pb::LeaseRevokeResponse> Client::LeaseRevoke(int64_t id, CallOptions call) {
  pb::LeaseRevokeRequest request;
  request.set_id(id);
  return Run<pb::Lease>(*transport_, Kind::kWrite, call, request, &pb::Lease::Stub::LeaseRevoke);
}

absl::StatusOr<pb::LeaseTimeToLiveResponse> Client::LeaseTimeToLive(int64_t id,
                                                                    bool keys,
                                                                    CallOptions call) {
  pb::LeaseTimeToLiveRequest request;
  request.set_id(id);
  request.set_keys(keys);
  return Run<pb::Lease>(*transport_, Kind::kRead, call, request, &pb::Lease::Stub::LeaseTimeToLive);
}

absl::StatusOr<pb::LeaseLeasesResponse> Client::LeaseList(CallOptions call) {
  return Run<pb::Lease>(*transport_, Kind::kRead, call, pb::LeaseLeasesRequest(),
                        &pb::Lease::Stub::LeaseLeases);
}

absl::StatusOr<pb::LeaseKeepAliveResponse> Client::LeaseKeepAliveOnce(int64_t id,
                                                                      CallOptions call) {
  pb::LeaseKeepAliveResponse response;
  const absl::Status status = transport_->Unary(
      true, call, [&](const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext& context) {
        auto stub = pb::Lease::NewStub(channel);
        auto stream = stub->LeaseKeepAlive(&context);
        const bool answered = stream->Write(KeepAliveRequest(id)) && stream->Read(&response);
        stream->WritesDone();
        if (answered) {
          context.TryCancel();  // one answer is all we want; its status says nothing more
          return grpc::Status::OK;
        }
        return stream->Finish();
      });
  if (!status.ok()) {
    return status;
  }
  if (response.ttl() <= 0) {
    return absl::NotFoundError("etcdserver: requested lease not found");
  }
  return response;
}

std::unique_ptr<LeaseKeeper> Client::KeepAlive(int64_t id) {
  return std::make_unique<LeaseKeeper>(transport_, id);
}

absl::StatusOr<pb::MemberListResponse> Client::MemberList(bool linearizable, CallOptions call) {
  pb::MemberListRequest request;
  request.set_linearizable(linearizable);
  return Run<pb::Cluster>(*transport_, Kind::kRead, call, request, &pb::Cluster::Stub::MemberList);
}

absl::StatusOr<pb::MemberAddResponse> Client::MemberAdd(const std::vector<std::string>& peer_urls,
                                                        bool learner,
                                                        CallOptions call) {
  pb::MemberAddRequest request;
  for (const std::string& url : peer_urls) {
    request.add_peerurls(url);
  }
  request.set_islearner(learner);
  return Run<pb::Cluster>(*transport_, Kind::kWrite, call, request, &pb::Cluster::Stub::MemberAdd);
}

absl::StatusOr<pb::MemberRemoveResponse> Client::MemberRemove(uint64_t id, CallOptions call) {
  pb::MemberRemoveRequest request;
  request.set_id(id);
  return Run<pb::Cluster>(*transport_, Kind::kWrite, call, request,
                          &pb::Cluster::Stub::MemberRemove);
}

absl::StatusOr<pb::MemberUpdateResponse> Client::MemberUpdate(
    uint64_t id, const std::vector<std::string>& peer_urls, CallOptions call) {
  pb::MemberUpdateRequest request;
  request.set_id(id);
  for (const std::string& url : peer_urls) {
    request.add_peerurls(url);
  }
  return Run<pb::Cluster>(*transport_, Kind::kWrite, call, request,
                          &pb::Cluster::Stub::MemberUpdate);
}

absl::StatusOr<pb::MemberPromoteResponse> Client::MemberPromote(uint64_t id, CallOptions call) {
  pb::MemberPromoteRequest request;
  request.set_id(id);
  return Run<pb::Cluster>(*transport_, Kind::kWrite, call, request,
                          &pb::Cluster::Stub::MemberPromote);
}

absl::StatusOr<pb::StatusResponse> Client::Status(CallOptions call) {
  return Run<pb::Maintenance>(*transport_, Kind::kRead, call, pb::StatusRequest(),
                              &pb::Maintenance::Stub::Status);
}

absl::StatusOr<pb::AlarmResponse> Client::Alarm(const pb::AlarmRequest& request, CallOptions call) {
  const Kind kind = request.action() == pb::AlarmRequest::GET ? Kind::kRead : Kind::kWrite;
  return Run<pb::Maintenance>(*transport_, kind, call, request, &pb::Maintenance::Stub::Alarm);
}

absl::StatusOr<pb::DefragmentResponse> Client::Defragment(CallOptions call) {
  return Run<pb::Maintenance>(*transport_, Kind::kWrite, call, pb::DefragmentRequest(),
                              &pb::Maintenance::Stub::Defragment);
}

absl::StatusOr<pb::HashKVResponse> Client::HashKv(int64_t revision, CallOptions call) {
  pb::HashKVRequest request;
  request.set_revision(revision);
  return Run<pb::Maintenance>(*transport_, Kind::kRead, call, request,
                              &pb::Maintenance::Stub::HashKV);
}

absl::StatusOr<pb::MoveLeaderResponse> Client::MoveLeader(uint64_t target, CallOptions call) {
  pb::MoveLeaderRequest request;
  request.set_targetid(target);
  return Run<pb::Maintenance>(*transport_, Kind::kWrite, call, request,
                              &pb::Maintenance::Stub::MoveLeader);
}

absl::StatusOr<pb::DowngradeResponse> Client::Downgrade(const pb::DowngradeRequest& request,
                                                        CallOptions call) {
  return Run<pb::Maintenance>(*transport_, Kind::kWrite, call, request,
                              &pb::Maintenance::Stub::Downgrade);
}

absl::StatusOr<SnapshotInfo> Client::Snapshot(
    const std::function<absl::Status(std::string_view)>& sink, CallOptions call) {
  SnapshotInfo info;
  absl::Status sink_status;
  const absl::Status status = transport_->Unary(
      false, call,
      [&](const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext& context) {
        auto stub = pb::Maintenance::NewStub(channel);
        auto reader = stub->Snapshot(&context, pb::SnapshotRequest());
        pb::SnapshotResponse part;
        while (sink_status.ok() && reader->Read(&part)) {
          sink_status = sink(part.blob());
          info.bytes += part.blob().size();
          info.version = part.version();
        }
        if (!sink_status.ok()) {
          context.TryCancel();
        }
        return reader->Finish();
      });
  if (!sink_status.ok()) {
    return sink_status;
  }
  if (!status.ok()) {
    return status;
  }
  return info;
}

}  // namespace mainstay::client
