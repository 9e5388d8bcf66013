#include "rpc/maintenance.h"

#include <utility>

#include "google/protobuf/message_lite.h"

#include "proto/etcdserverpb/rpc.pb.h"
#include "rpc/answer.h"

namespace mainstay::rpc::maintenance {
namespace {

using Access = server::Access;

template <class Request>
bool Parse(const CallPtr& call, const Buffer& bytes, Request* request) {
  if (request->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return true;
  }
  FinishMalformed(call);
  return false;
}

void Reply(const CallPtr& call, const google::protobuf::MessageLite& message) {
  MutableBuffer out(message.ByteSizeLong());
  message.SerializeToArray(out.data(), static_cast<int>(out.size()));
  const size_t size = out.size();
  call->Reply(BufferChain(std::move(out).Finish(size)));
}

void Fill(etcdserverpb::ResponseHeader* to, const Header& from) {
  to->set_cluster_id(from.cluster_id);
  to->set_member_id(from.member_id);
  to->set_revision(from.revision);
  to->set_raft_term(from.raft_term);
}

etcdserverpb::AlarmType ToProto(server::AlarmType type) {
  return static_cast<etcdserverpb::AlarmType>(type);
}

// A server's job that answers later; errors go to the client.
template <class Start, class Then>
void AwaitJob(const CallPtr& call, Start start, Then then) {
  const server::ReplyTo to = call->loop().Await([call, then](server::Reply&& reply) {
    if (reply.error != Error::kOk) {
      FinishError(call, reply.error);
    } else if (!call->ended()) {
      then(call, std::move(reply));
    }
  });
  if (const Error error = start(ServerOf(*call), to); error != Error::kOk) {
    call->loop().Forget(to);
    FinishError(call, error);
  }
}

std::string AlarmLine(const server::AlarmMember& alarm) {
  return "memberID:" + std::to_string(alarm.member.value()) +
         " alarm:" + etcdserverpb::AlarmType_Name(ToProto(alarm.type));
}

}  // namespace

void Alarm(const CallPtr& call, Buffer request) {
  etcdserverpb::AlarmRequest alarm;
  if (!Parse(call, request, &alarm)) {
    return;
  }
  if (!etcdserverpb::AlarmRequest_AlarmAction_IsValid(alarm.action()) ||
      !etcdserverpb::AlarmType_IsValid(alarm.alarm())) {
    return FinishError(call, Error::kUnknownEnum);
  }
  // The log gets what was checked, not the client's bytes: protobuf reads more (groups, enums cut
  // to 32 bits) than the applier does, and an entry that cannot be read ends the member for good.
  alarm.DiscardUnknownFields();
  ProposeFor(call, server::RequestKind::kAlarm, Buffer::Copy(alarm.SerializeAsString()),
             [](const CallPtr& c, server::Reply&& r) {
               etcdserverpb::AlarmResponse response;
               Fill(response.mutable_header(), MakeHeader(*c, r));
               for (const server::AlarmMember& a : std::get<server::AlarmResult>(r.body).alarms) {
                 etcdserverpb::AlarmMember* to = response.add_alarms();
                 to->set_memberid(a.member.value());
                 to->set_alarm(ToProto(a.type));
               }
               Reply(c, response);
             });
}

void Status(const CallPtr& call, Buffer /*request*/) {
  if (!Permitted(call, Access::kAuthenticated)) {
    return;
  }
  const server::MemberStatus status = ServerOf(*call).GetStatus();
  etcdserverpb::StatusResponse response;
  Fill(response.mutable_header(), MakeHeader(*call, status.revision));
  response.set_version(status.version);
  response.set_dbsize(status.db_size_bytes);
  response.set_leader(status.leader.value());
  response.set_raftindex(status.raft_index);
  response.set_raftterm(status.raft_term);
  response.set_raftappliedindex(status.raft_applied_index);
  response.set_dbsizeinuse(status.db_size_in_use_bytes);
  response.set_islearner(status.is_learner);
  response.set_storageversion(status.storage_version);
  response.set_dbsizequota(status.db_size_quota_bytes);
  etcdserverpb::DowngradeInfo* downgrade = response.mutable_downgradeinfo();
  downgrade->set_enabled(!status.downgrade_target.empty());
  downgrade->set_targetversion(status.downgrade_target);
  if (status.leader == MemberId(0)) {
    response.add_errors(std::string(ErrorText(Error::kNoLeader)));
  }
  for (const server::AlarmMember& alarm : status.alarms) {
    response.add_errors(AlarmLine(alarm));
  }
  Reply(call, response);
}

void Defragment(const CallPtr& call, Buffer /*request*/) {
  if (!Permitted(call, Access::kAdmin)) {
    return;
  }
  AwaitJob(
      call, [](server::Server& server, const server::ReplyTo& to) { return server.Defragment(to); },
      [](const CallPtr& c, server::Reply&&) { c->Reply({}); });
}

void Hash(const CallPtr& call, Buffer /*request*/) {
  if (!Permitted(call, Access::kAdmin)) {
    return;
  }
  AwaitJob(
      call, [](server::Server& server, const server::ReplyTo& to) { return server.Hash(to); },
      [](const CallPtr& c, server::Reply&& r) {
        etcdserverpb::HashResponse response;
        Fill(response.mutable_header(), MakeCurrentHeader(*c));
        response.set_hash(std::get<server::HashResult>(r.body).hash);
        Reply(c, response);
      });
}

void HashKv(const CallPtr& call, Buffer request) {
  etcdserverpb::HashKVRequest hash;
  if (!Parse(call, request, &hash) || !Permitted(call, Access::kAdmin)) {
    return;
  }
  AwaitJob(
      call,
      [revision = hash.revision()](server::Server& server, const server::ReplyTo& to) {
        return server.HashKv(revision, to);
      },
      [](const CallPtr& c, server::Reply&& r) {
        const auto& result = std::get<server::HashKvResult>(r.body);
        etcdserverpb::HashKVResponse response;
        Fill(response.mutable_header(), MakeCurrentHeader(*c));
        response.set_hash(result.hash);
        response.set_compact_revision(result.compact_revision);
        response.set_hash_revision(result.hash_revision);
        Reply(c, response);
      });
}

void MoveLeader(const CallPtr& call, Buffer request) {
  etcdserverpb::MoveLeaderRequest move;
  if (!Parse(call, request, &move) || !Permitted(call, Access::kAdmin)) {
    return;
  }
  AskServer(
      call,
      [target = MemberId(move.targetid())](server::Server& server, const server::ReplyTo& to) {
        return server.MoveLeader(target, to);
      },
      [](const CallPtr& c, server::Reply&&) { c->Reply({}); });
}

void Downgrade(const CallPtr& call, Buffer request) {
  using Action = server::Server::DowngradeAction;
  etcdserverpb::DowngradeRequest downgrade;
  if (!Parse(call, request, &downgrade) || !Permitted(call, Access::kAdmin)) {
    return;
  }
  if (!etcdserverpb::DowngradeRequest_DowngradeAction_IsValid(downgrade.action())) {
    return FinishError(call, Error::kUnknownMethod);
  }
  const auto action = static_cast<Action>(downgrade.action());
  AskServer(
      call,
      [action, version = downgrade.version()](server::Server& server, const server::ReplyTo& to) {
        return server.Downgrade(action, version, to);
      },
      [](const CallPtr& c, server::Reply&& r) {
        etcdserverpb::DowngradeResponse response;
        Fill(response.mutable_header(), MakeCurrentHeader(*c));
        if (const auto* result = std::get_if<server::DowngradeResult>(&r.body)) {
          response.set_version(result->version);
        }
        Reply(c, response);
      });
}

void MemberList(const CallPtr& call, Buffer request) {
  etcdserverpb::MemberListRequest list;
  if (!Parse(call, request, &list) || !Permitted(call, Access::kAuthenticated)) {
    return;
  }
  const auto answer = [call] {
    etcdserverpb::MemberListResponse response;
    // As all answers of Cluster: no revision.
    Fill(response.mutable_header(), MakeHeader(*call, 0));
    for (const auto& [id, member] : ServerOf(*call).Members()->members) {
      etcdserverpb::Member* to = response.add_members();
      to->set_id(id.value());
      to->set_name(member.name);
      to->set_islearner(member.is_learner);
      for (const std::string& url : member.peer_urls) {
        to->add_peerurls(url);
      }
      for (const std::string& url : member.client_urls) {
        to->add_clienturls(url);
      }
    }
    Reply(call, response);
  };
  if (list.linearizable()) {
    AfterBarrier(call, answer);
  } else {
    answer();
  }
}

void AuthStatus(const CallPtr& call, Buffer /*request*/) {
  // A proposal in etcd, hence linearizable; here a barrier gives the same promise.
  AfterBarrier(call, [call] {
    etcdserverpb::AuthStatusResponse response;
    Fill(response.mutable_header(), MakeCurrentHeader(*call));
    response.set_authrevision(1);
    Reply(call, response);
  });
}

void Authenticate(const CallPtr& call, Buffer /*request*/) {
  AfterBarrier(call, [call] { FinishError(call, Error::kAuthNotEnabled); });
}

}  // namespace mainstay::rpc::maintenance
