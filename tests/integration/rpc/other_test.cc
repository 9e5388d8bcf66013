// Goal: Maintenance, Cluster, Auth, health and reflection over real gRPC; the gate; what is not
// served says so by name. Method: an in-process member and gRPC C++ stubs.
#include <grpcpp/generic/generic_stub.h>
#include <openssl/sha.h>

#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "proto/grpc/reflection/v1/reflection.pb.h"
#include "proto/v3lockpb/v3lock.grpc.pb.h"
#include "tests/integration/rpc/client.h"

namespace mainstay::testing {
namespace {

using grpc::StatusCode;

class MaintenanceTest : public RpcTest {};

TEST_F(MaintenanceTest, StatusTellsVersionSizesAndLeader) {
  Put("a", "1");
  pb::StatusResponse status;
  ASSERT_EQ(Call(*maintenance_, &pb::Maintenance::Stub::Status, pb::StatusRequest(), &status),
            kFine);
  EXPECT_EQ(status.version(), "3.7.1");
  EXPECT_EQ(status.leader(), status.header().member_id());
  EXPECT_EQ(status.header().revision(), 2);
  EXPECT_EQ(status.dbsizequota(), int64_t{2} << 30);
  EXPECT_GT(status.dbsize(), 0);
  EXPECT_GE(status.raftindex(), status.raftappliedindex());
  EXPECT_TRUE(status.has_downgradeinfo());
  EXPECT_EQ(status.errors_size(), 0);
  EXPECT_FALSE(status.islearner());
}

TEST_F(MaintenanceTest, HashKvDependsOnContentOnly) {
  Put("a", "1");
  Put("b", "2");
  pb::HashKVRequest request;
  pb::HashKVResponse now, then;
  ASSERT_EQ(Call(*maintenance_, &pb::Maintenance::Stub::HashKV, request, &now), kFine);
  EXPECT_EQ(now.hash_revision(), 3);
  EXPECT_EQ(now.compact_revision(), -1);
  Put("c", "3");
  request.set_revision(3);
  ASSERT_EQ(Call(*maintenance_, &pb::Maintenance::Stub::HashKV, request, &then), kFine);
  EXPECT_EQ(then.hash(), now.hash());
  EXPECT_EQ(then.header().revision(), 4);
  request.set_revision(99);
  EXPECT_EQ(Call(*maintenance_, &pb::Maintenance::Stub::HashKV, request, &then),
            (Outcome{StatusCode::OUT_OF_RANGE,
                     "etcdserver: mvcc: required revision is a future revision"}));
}

TEST_F(MaintenanceTest, SnapshotComesInChunksWithAChecksumAtTheEnd) {
  grpc::ClientContext context;
  SetDeadline(&context);
  auto reader = maintenance_->Snapshot(&context, pb::SnapshotRequest());
  std::string file;
  std::vector<uint64_t> remaining;
  pb::SnapshotResponse chunk;
  while (reader->Read(&chunk)) {
    EXPECT_FALSE(chunk.has_header());
    remaining.push_back(chunk.remaining_bytes());
    file += chunk.blob();
  }
  ASSERT_EQ(Of(reader->Finish()), kFine);
  EXPECT_EQ(remaining, (std::vector<uint64_t>{32768 + 512, 512, 0, 0}));
  ASSERT_EQ(file.size() % 512, 32u);
  const std::string image = file.substr(0, file.size() - 32);
  unsigned char sum[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(image.data()), image.size(), sum);
  EXPECT_EQ(file.substr(image.size()), std::string(reinterpret_cast<char*>(sum), sizeof sum));
}

TEST_F(MaintenanceTest, DefragmentHashMoveLeaderAndDowngradeAnswer) {
  pb::DefragmentResponse defragmented;
  EXPECT_EQ(Call(*maintenance_, &pb::Maintenance::Stub::Defragment, pb::DefragmentRequest(),
                 &defragmented),
            kFine);
  EXPECT_FALSE(defragmented.has_header());
  pb::HashResponse hash;
  EXPECT_EQ(Call(*maintenance_, &pb::Maintenance::Stub::Hash, pb::HashRequest(), &hash), kFine);
  pb::MoveLeaderRequest move;
  pb::MoveLeaderResponse moved;
  move.set_targetid(hash.header().member_id());
  EXPECT_EQ(Call(*maintenance_, &pb::Maintenance::Stub::MoveLeader, move, &moved), kFine);
  EXPECT_FALSE(moved.has_header());
  move.set_targetid(12345);
  EXPECT_EQ(Call(*maintenance_, &pb::Maintenance::Stub::MoveLeader, move, &moved),
            (Outcome{StatusCode::FAILED_PRECONDITION, "etcdserver: bad leader transferee"}));
  pb::DowngradeRequest downgrade;
  downgrade.set_version("nonsense");
  pb::DowngradeResponse downgraded;
  EXPECT_EQ(
      Call(*maintenance_, &pb::Maintenance::Stub::Downgrade, downgrade, &downgraded),
      (Outcome{StatusCode::INVALID_ARGUMENT, "etcdserver: wrong downgrade target version format"}));
  downgrade.set_action(static_cast<pb::DowngradeRequest::DowngradeAction>(7));
  EXPECT_EQ(Call(*maintenance_, &pb::Maintenance::Stub::Downgrade, downgrade, &downgraded),
            (Outcome{StatusCode::UNKNOWN, "etcdserver: unknown method"}));
}

TEST_F(MaintenanceTest, AlarmsAreRaisedListedAndCleared) {
  pb::AlarmRequest request;
  request.set_action(pb::AlarmRequest::ACTIVATE);
  request.set_alarm(pb::NOSPACE);
  request.set_memberid(42);
  pb::AlarmResponse response;
  ASSERT_EQ(Call(*maintenance_, &pb::Maintenance::Stub::Alarm, request, &response), kFine);
  ASSERT_EQ(response.alarms_size(), 1);
  pb::StatusResponse status;
  ASSERT_EQ(Call(*maintenance_, &pb::Maintenance::Stub::Status, pb::StatusRequest(), &status),
            kFine);
  ASSERT_EQ(status.errors_size(), 1);
  EXPECT_EQ(status.errors(0), "memberID:42 alarm:NOSPACE");
  request.set_action(pb::AlarmRequest::DEACTIVATE);
  ASSERT_EQ(Call(*maintenance_, &pb::Maintenance::Stub::Alarm, request, &response), kFine);
  request.Clear();
  ASSERT_EQ(Call(*maintenance_, &pb::Maintenance::Stub::Alarm, request, &response), kFine);
  EXPECT_EQ(response.alarms_size(), 0);
}

// What protobuf accepts must not reach the log unless the applier reads it too: an entry that
// cannot be read ends the member, now and at every start.
TEST_F(MaintenanceTest, OddAlarmRequestsAreRefusedOrHarmless) {
  const Outcome unknown_enum{StatusCode::INVALID_ARGUMENT,
                             "mainstay: an enum field holds a number that is not defined"};
  const auto alarm = [this](const std::string& wire) {
    pb::AlarmRequest request;
    EXPECT_TRUE(request.ParseFromString(wire));
    pb::AlarmResponse response;
    return Call(*maintenance_, &pb::Maintenance::Stub::Alarm, request, &response);
  };
  EXPECT_EQ(alarm({"\x08\x01\x18\x4d", 4}), unknown_enum);
  EXPECT_EQ(alarm({"\x08\x03", 2}), unknown_enum);
  EXPECT_EQ(alarm({"\x08\x01\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13}), unknown_enum);
  EXPECT_EQ(alarm({"\x08\x01\x18\x01\x53\x54", 6}), kFine) << "an unknown group";

  // 2^32 + 1: an enum keeps the lower 32 bits. As bytes, since a stub would write 1.
  const grpc::Slice slice("\x08\x81\x80\x80\x80\x10\x18\x81\x80\x80\x80\x10", 12);
  grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::GenericStub stub(channel_);
  grpc::ClientContext context;
  SetDeadline(&context);
  grpc::CompletionQueue queue;
  auto call = stub.PrepareUnaryCall(&context, "/etcdserverpb.Maintenance/Alarm", request, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  ASSERT_TRUE(queue.Next(&tag, &ok));
  EXPECT_EQ(Of(status), kFine);

  pb::AlarmResponse alarms;
  ASSERT_EQ(Call(*maintenance_, &pb::Maintenance::Stub::Alarm, pb::AlarmRequest(), &alarms), kFine);
  EXPECT_EQ(alarms.alarms_size(), 1);
}

TEST_F(MaintenanceTest, MemberListHasNoRevision) {
  pb::MemberListRequest request;
  request.set_linearizable(true);
  pb::MemberListResponse response;
  ASSERT_EQ(Call(*cluster_, &pb::Cluster::Stub::MemberList, request, &response), kFine);
  EXPECT_EQ(response.header().revision(), 0);
  ASSERT_EQ(response.members_size(), 1);
  EXPECT_EQ(response.members(0).id(), response.header().member_id());
  EXPECT_EQ(response.members(0).name(), "default");
  EXPECT_EQ(response.members(0).peerurls(0), "http://127.0.0.1:2380");
  EXPECT_EQ(response.members(0).clienturls(0), "http://127.0.0.1:2379");
}

TEST_F(MaintenanceTest, AuthIsOffAndSaysSo) {
  pb::AuthStatusResponse status;
  ASSERT_EQ(Call(*auth_, &pb::Auth::Stub::AuthStatus, pb::AuthStatusRequest(), &status), kFine);
  EXPECT_FALSE(status.enabled());
  EXPECT_EQ(status.authrevision(), 1u);
  pb::AuthenticateResponse token;
  EXPECT_EQ(
      Call(*auth_, &pb::Auth::Stub::Authenticate, pb::AuthenticateRequest(), &token),
      (Outcome{StatusCode::FAILED_PRECONDITION, "etcdserver: authentication is not enabled"}));
}

TEST_F(MaintenanceTest, WhatIsNotServedSaysSoByName) {
  pb::MemberAddResponse added;
  EXPECT_EQ(Call(*cluster_, &pb::Cluster::Stub::MemberAdd, pb::MemberAddRequest(), &added),
            (Outcome{StatusCode::UNIMPLEMENTED,
                     "mainstay does not serve etcdserverpb.Cluster/MemberAdd in this version"}));
  auto lock = v3lockpb::Lock::NewStub(channel_);
  v3lockpb::LockResponse locked;
  EXPECT_EQ(Call(*lock, &v3lockpb::Lock::Stub::Lock, v3lockpb::LockRequest(), &locked).code,
            StatusCode::UNIMPLEMENTED);
}

TEST_F(MaintenanceTest, HealthKnowsTheServerOnly) {
  auto health = ::grpc::health::v1::Health::NewStub(channel_);
  using Stub = ::grpc::health::v1::Health::Stub;
  ::grpc::health::v1::HealthCheckRequest request;
  ::grpc::health::v1::HealthCheckResponse response;
  ASSERT_EQ(Call(*health, &Stub::Check, request, &response), kFine);
  EXPECT_EQ(response.status(), ::grpc::health::v1::HealthCheckResponse::SERVING);
  request.set_service("etcdserverpb.KV");
  EXPECT_EQ(Call(*health, &Stub::Check, request, &response),
            (Outcome{StatusCode::NOT_FOUND, "unknown service"}));
  ::grpc::health::v1::HealthListResponse list;
  ASSERT_EQ(Call(*health, &Stub::List, ::grpc::health::v1::HealthListRequest(), &list), kFine);
  EXPECT_EQ(list.statuses().at("").status(), ::grpc::health::v1::HealthCheckResponse::SERVING);
}

TEST_F(MaintenanceTest, TheGateRefusesBadMetadataAndCountsVersions) {
  pb::RangeRequest range;
  range.set_key("a");
  pb::RangeResponse response;
  grpc::ClientContext with_leader;
  with_leader.AddMetadata("hasleader", "true");
  with_leader.AddMetadata("client-api-version", "3.7");
  EXPECT_TRUE(kv_->Range(&with_leader, range, &response).ok());
  const std::string text = member_.MetricsText();
  EXPECT_NE(text.find("etcd_server_client_requests_total{"), std::string::npos);
  EXPECT_NE(text.find("client_api_version=\"3.7\""), std::string::npos);
  EXPECT_NE(text.find("grpc_server_handled_total{"), std::string::npos);
}

}  // namespace
}  // namespace mainstay::testing
